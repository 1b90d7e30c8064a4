"""Gates that open by time or by an event while thousands wait."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.domain.marks import Sort
from manent_server.domain.rules import Rules
from manent_server.domain.windows import Window
from manent_server.store import marks, records
from manent_server.usecases import mark, wake
from manent_server.usecases.requests import MarkRequest
from manent_server.usecases.survey import WHOLE, Survey
from tests.rig.core import ADMIN, Core, long_ago, new_id

IDLE = 0.02
"""The share of a core that may go into waiting."""
SOON = timedelta(seconds=2)


def crowd(core: Core, count: int, *, like: str, **values: Any) -> list[str]:
    """As many deploys like one, accepted by force."""
    with core.store.write() as tx:
        d, w = tx.tables.deploys, tx.tables.wakes
        row = dict(tx.connection.execute(sa.select(d).where(d.c.id == like)).mappings().one())
        ids = [new_id() for _ in range(count)]
        rows = [
            row | values | {"id": one, "root": one, "number": row["number"] + n}
            for n, one in enumerate(ids, start=1)
        ]
        tx.connection.execute(d.insert(), rows)
        found = records.wake_of(tx, like)
        if found is not None:
            wakes = [{"deploy": one, "at": found[0], "reason": "gate"} for one in ids]
            tx.connection.execute(w.insert(), wakes)
    return ids


def spread(core: Core, ids: list[str], begin: datetime) -> None:
    """Give each an instant of its own, a second after the one before."""
    with core.store.write() as tx:
        d, w = tx.tables.deploys, tx.tables.wakes
        rows = [{"one": one, "at_": begin + timedelta(seconds=n)} for n, one in enumerate(ids)]
        for table, column, key in ((d, "not_before", d.c.id), (w, "at", w.c.deploy)):
            change = sa.update(table).where(key == sa.bindparam("one"))
            tx.connection.execute(change.values({column: sa.bindparam("at_")}), rows)


def states(core: Core) -> dict[str, int]:
    with core.store.read() as tx:
        d = tx.tables.deploys
        query = sa.select(d.c.state, sa.func.count()).group_by(d.c.state)
        return {row[0]: row[1] for row in tx.connection.execute(query)}


def cost(act: Callable[[], object], times: int) -> float:
    """Seconds of CPU of this process for one."""
    began = time.process_time()
    for _ in range(times):
        act()
    return (time.process_time() - began) / times


def duration(act: Callable[[], object]) -> timedelta:
    """What it takes, without what other processes of the machine take meanwhile."""
    began = time.process_time()
    act()
    return timedelta(seconds=time.process_time() - began)


def waits_cheaply_and_opens_in_time(core: Core, count: int) -> tuple[float, timedelta]:
    """The share of a core that waiting takes, and how late the last of the crowd opens."""
    core.worker()
    core.submit("mail")  # the first dispatch loads the engine's client
    later = core.at() + timedelta(hours=1)
    spread(core, crowd(core, count, like=core.submit(not_before=later)), later)
    survey = Survey(core.desk)
    whole = cost(survey.round, 1)
    rounds = cost(lambda: (survey.round(), wake.wake_due(core.desk)), 10)
    share = rounds + whole / WHOLE.total_seconds()
    print(f"a look {whole * 1000:.0f} ms, a round {rounds * 1000:.1f} ms")  # noqa: T201 - figures
    # The next instant comes: one of the crowd, found by its wake among thousands.
    first = min(core.rows("wakes"), key=lambda row: row["at"])["deploy"]
    core.set(first, not_before=long_ago())
    with core.store.write() as tx:
        records.wake(tx, first, long_ago(), "gate")
    assert duration(lambda: wake.wake_due(core.desk)) < SOON / 2
    assert core.deploy(first).state == "ENQUEUED"
    # All of them have the same instant.
    with core.store.write() as tx:
        d, w = tx.tables.deploys, tx.tables.wakes
        tx.connection.execute(sa.update(d).values(not_before=long_ago()))
        tx.connection.execute(sa.update(w).values(at=long_ago()))
    late = duration(lambda: wake.wake_due(core.desk))
    assert states(core) == {"ENQUEUED": count + 2}
    assert core.rows("wakes") == []
    return share, late


def test_many_wait_cheaply_and_open_in_time(core: Core):
    share, late = waits_cheaply_and_opens_in_time(core, 1000)
    assert share <= IDLE
    assert late < SOON
    tickets = [row["ticket"] for row in core.rows("deploys")]
    assert len(set(tickets)) == len(tickets)


@pytest.mark.soak
def test_ten_thousand_wait_cheaply_and_open_in_time(core: Core):
    share, late = waits_cheaply_and_opens_in_time(core, 10_000)
    print(f"share {share:.4f} late {late.total_seconds():.2f} s")  # noqa: T201 - the figures
    assert share <= IDLE
    assert late < SOON


def test_those_that_a_mark_held_back_all_go_on_when_it_is_lifted(core: Core):
    """An event that opens a gate for thousands moves all of them."""
    held = mark.put(core.desk, MarkRequest(Sort.LOCK, "audit"), caller=ADMIN)["id"]
    crowd(core, 2500, like=core.submit())
    mark.lift(core.desk, Sort.LOCK, held, caller=ADMIN)
    assert states(core) == {"ENQUEUED": 2501}


def closed_by(core: Core, cause: str) -> None:
    at = core.at()
    if cause == "window":
        rule = f"FREQ=DAILY;BYHOUR={at.hour}"
        shut = Window(allows=False, rule=rule, duration=timedelta(hours=2), timezone="UTC")
        core.change_environment("staging", rules=Rules(windows=(shut,)))
        return
    until = {"expires_at": at + timedelta(hours=1)} if cause == "expiring" else {}
    mark.put(core.desk, MarkRequest(Sort.LOCK, "audit", **until), caller=ADMIN)


def open_again(core: Core, cause: str) -> None:
    """As an event whose process died before it admitted."""
    if cause == "window":
        core.change_environment("staging", rules=Rules())
        return
    with core.store.write() as tx:
        if cause == "expiring":
            tx.connection.execute(sa.update(tx.tables.marks).values(expires_at=long_ago()))
        else:
            ids = [row.id for row in marks.standing(tx, at=tx.now())]
            marks.lift(tx, ids, by="ann", at=tx.now())


@pytest.mark.parametrize("cause", ["window", "expiring", "lifted"])
def test_an_event_nobody_acted_on_is_seen_in_the_next_round(core: Core, cause: str):
    """I5: the process died between the event and the admission after it."""
    core.worker()
    closed_by(core, cause)
    deploy = core.submit()
    survey = Survey(core.desk)
    survey.round()
    assert core.deploy(deploy).state == "DELAYED"
    open_again(core, cause)
    survey.round()
    assert core.slots() == [deploy]


def test_a_worker_that_appears_is_seen_in_the_next_round(core: Core):
    deploy = core.submit()
    survey = Survey(core.desk)
    survey.round()
    core.worker()
    survey.round()
    assert core.slots() == [deploy]


def test_a_place_that_became_free_is_seen_in_the_next_round(core: Core):
    core.worker()
    first, second = core.submit(), core.submit("mail")
    survey = Survey(core.desk)
    survey.round()
    with core.store.write() as tx:
        tx.connection.execute(sa.delete(tx.tables.slots))
        d = tx.tables.deploys
        ended = {"state": "ERROR", "outcome": "failed", "ended_at": tx.now(), "phase": None}
        tx.connection.execute(sa.update(d).where(d.c.id == first).values(**ended))
    survey.round()
    assert core.slots() == [second]


@pytest.mark.parametrize("ago", [timedelta(minutes=1), timedelta(days=-1)], ids=["then", "ahead"])
def test_whatever_was_seen_all_are_looked_at_now_and_then(core: Core, ago: timedelta):
    """Nothing that opens a gate unseen is missed for longer than a minute, nor where the
    database's clock was ahead."""
    core.worker()
    deploy = core.submit(not_before=core.at() + timedelta(hours=1))
    survey = Survey(core.desk)
    survey.round()
    core.set(deploy, not_before=long_ago())
    survey.round()
    assert core.deploy(deploy).state == "DELAYED"
    survey._whole_at = core.at() - ago
    survey.round()
    assert core.slots() == [deploy]


def test_each_look_sets_the_next_alarm(core: Core):
    """A deploy behind several gates is looked at when the next of them opens."""
    at = core.at()
    closed_by(core, "expiring")
    deploy = core.submit(not_before=at + timedelta(minutes=5), not_after=at + timedelta(hours=2))

    def alarm() -> timedelta:
        (row,) = core.rows("wakes")
        return timedelta(seconds=round((row["at"] - at).total_seconds(), -1))

    assert alarm() == timedelta(minutes=5)
    core.set(deploy, not_before=long_ago())
    core.admit()
    assert (core.deploy(deploy).phase, alarm()) == ("locked", timedelta(hours=1))
    open_again(core, "expiring")
    core.admit()
    assert (core.deploy(deploy).state, alarm()) == ("ENQUEUED", timedelta(hours=2))


def test_what_expires_while_it_waits_ends_by_its_alarm(core: Core):
    at = core.at()
    deploy = core.submit(not_before=at + timedelta(hours=1), not_after=at + timedelta(hours=2))
    core.set(deploy, not_after=long_ago())
    with core.store.write() as tx:
        records.wake(tx, deploy, long_ago(), "gate")
    assert wake.wake_due(core.desk) == 1
    assert core.deploy(deploy).outcome == "expired"


def test_a_deploy_that_cannot_be_judged_is_shown_and_holds_back_no_other(
    core: Core, caplog: pytest.LogCaptureFixture
):
    core.worker()
    held = mark.put(core.desk, MarkRequest(Sort.LOCK, "audit"), caller=ADMIN)["id"]
    broken, other = core.submit(), core.submit("mail")
    core.set(broken, kind="strange")
    mark.lift(core.desk, Sort.LOCK, held, caller=ADMIN)
    row = core.deploy(broken)
    assert (row.state, row.phase, row.blocked) == ("DELAYED", "blocked", "ValueError")
    assert core.slots() == [other]
    assert "cannot be judged" in caplog.text
    core.set(broken, kind="deploy")
    core.admit()
    assert (core.deploy(broken).state, core.deploy(broken).blocked) == ("ENQUEUED", None)
