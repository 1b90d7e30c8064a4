"""Leased loops: every batch of a holder asks whether the lease is still its own."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import NoReturn

import pytest
import sqlalchemy as sa

from manent_server.domain.errors import Unavailable
from manent_server.observability.metrics import Metrics
from manent_server.store import records, workers
from manent_server.store.audit import Deed
from manent_server.store.transaction import Transaction
from manent_server.store.workers import Lease, LeaseLost
from manent_server.usecases import chain, publish
from manent_server.usecases.desk import Desk
from manent_server.usecases.tenure import Vigil, take_watched
from manent_server.worker.jobs import jobs
from manent_server.worker.lookout import Lookout
from manent_server.worker.loops import Job, Loop
from tests.rig.core import Core, long_ago

LASTS = timedelta(seconds=30)


def loop(core: Core, body: Callable[[Desk], object], *, holder: str = "a") -> Loop:
    job = Job("wake", timedelta(seconds=1), lambda desk: lambda: body(desk))
    return Loop(core.desk, holder, job, lasts=LASTS)


def write(desk: Desk) -> None:
    """A batch that can be seen."""
    with desk.store.write() as tx:
        workers.take_lease(tx, "trace", "a", lasts=LASTS, at=tx.now())


def expire(core: Core) -> None:
    with core.store.write() as tx:
        table = tx.tables.leases
        tx.connection.execute(
            sa.update(table).where(table.c.name == "wake").values(until=long_ago())
        )


def steal(core: Core) -> None:
    """Another process takes the lease, which has ended."""
    expire(core)
    with core.store.write() as tx:
        assert workers.take_lease(tx, "wake", "b", lasts=LASTS, at=tx.now()) is not None


def put_far(core: Core) -> None:
    """Its end was drawn by a clock that was two days ahead."""
    with core.store.write() as tx:
        table = tx.tables.leases
        until = tx.now() + timedelta(days=2)
        tx.connection.execute(sa.update(table).where(table.c.name == "wake").values(until=until))


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def asked(core: Core, vigil: Vigil) -> Lease | None:
    with core.store.write() as tx:
        return take_watched(tx, "wake", "b", LASTS, vigil)


def test_a_lease_that_nobody_keeps_ends_though_its_end_was_put_out_of_reach(core: Core):
    loop(core, write).round()
    put_far(core)
    clock = Clock()
    vigil = Vigil(LASTS, clock)
    assert asked(core, vigil) is None
    clock.seconds = 60.0
    assert asked(core, vigil) is None
    clock.seconds = 61.0
    lease = asked(core, vigil)
    assert lease is not None
    with core.store.read() as tx:
        assert workers.holds_lease(tx, lease, at=tx.now() + LASTS - timedelta(seconds=5))
        assert not workers.holds_lease(tx, lease, at=tx.now() + LASTS)


def test_a_lease_that_is_kept_is_its_holders_whatever_the_clock_says(core: Core):
    loop(core, write).round()
    clock = Clock()
    vigil = Vigil(LASTS, clock)
    for _ in range(3):
        put_far(core)
        assert asked(core, vigil) is None
        clock.seconds += 61.0


def leases(core: Core) -> set[str]:
    return {str(row["name"]) for row in core.rows("leases")}


def test_the_holder_works(core: Core):
    loop(core, write).round()
    assert leases(core) == {"wake", "trace"}


def test_who_does_not_hold_it_does_not(core: Core):
    loop(core, lambda _: None, holder="b").round()
    loop(core, write).round()
    assert leases(core) == {"wake"}


@pytest.mark.parametrize("how", [expire, steal])
def test_a_batch_that_comes_after_the_lease_writes_nothing(
    core: Core, how: Callable[[Core], None], caplog: pytest.LogCaptureFixture
):
    """I13: stopped in the middle of a round, the holder goes on when another one acts."""

    def body(desk: Desk) -> None:
        how(core)
        write(desk)

    loop(core, body).round()
    assert leases(core) == {"wake"}
    assert "stops its round" in caplog.text


def test_admission_of_a_loop_is_a_batch_of_it(core: Core):
    core.worker()
    deploy = core.submit()
    assert core.slots() == [deploy]
    lost: list[str] = []

    def body(desk: Desk) -> None:
        steal(core)
        try:
            desk.admission("staging")
        except LeaseLost:
            lost.append("lost")

    loop(core, body).round()
    assert lost == ["lost"]


def test_one_look_serves_the_loops_that_ask_a_moment_later(core: Core):
    chain.chain(core.desk)
    now = [100.0]
    lookout = Lookout(core.store, clock=lambda: now[0])
    done: list[str] = []
    look = lookout.when(lambda seen: seen.records, lambda: done.append("chained"))
    first = lookout.look()
    with core.store.write() as tx:
        records.write_audit(tx, Deed("ann", "token.created"), at=tx.now())
    now[0] += 0.24
    look()
    assert lookout.look() is first
    assert done == []
    now[0] += 0.02
    look()
    assert lookout.look() is not first
    assert done == ["chained"]


def test_whoever_gets_no_answer_is_not_given_an_old_one(
    core: Core, monkeypatch: pytest.MonkeyPatch
):
    now = [100.0]
    lookout = Lookout(core.store, clock=lambda: now[0])
    lookout.look()
    now[0] += 1
    with monkeypatch.context() as patch:
        patch.setattr(core.store, "read", _away)
        for _ in range(2):
            with pytest.raises(Unavailable):
                lookout.look()
    assert lookout.look().schedules is False


def test_where_answers_are_late_they_are_shared_by_all_who_wait(
    core: Core, monkeypatch: pytest.MonkeyPatch
):
    now, reads = [100.0], []
    asked, answered = threading.Event(), threading.Event()
    read = core.store.read

    def late() -> AbstractContextManager[Transaction]:
        reads.append(now[0])
        asked.set()
        assert answered.wait(10)
        return read()

    monkeypatch.setattr(core.store, "read", late)
    lookout = Lookout(core.store, clock=lambda: now[0])
    with ThreadPoolExecutor() as pool:
        looks = [pool.submit(lookout.look)]
        assert asked.wait(10)
        now[0] += 1
        looks += [pool.submit(lookout.look) for _ in range(4)]
        answered.set()
    assert all(look.result() for look in looks)
    assert reads == [100.0, 101.0]


def _away() -> NoReturn:
    raise Unavailable("away", next="wait")


def test_a_look_sees_what_each_loop_finds(core: Core):
    core.worker()
    due = core.submit()
    seen = Lookout(core.store).look()
    assert (seen.events, seen.records, seen.wakes, seen.schedules) == (True, True, False, False)
    with core.store.write() as tx:
        records.wake(tx, due, tx.now() + timedelta(minutes=1), "gate")
    publish.publish(core.desk)
    chain.chain(core.desk)
    after = Lookout(core.store).look()
    assert (after.events, after.records, after.wakes) == (False, False, False)
    assert after.head == len(core.rows("audit_chain")) > 0
    with core.store.write() as tx:
        records.wake(tx, due, long_ago(), "gate")
    assert Lookout(core.store).look().wakes


def test_a_long_round_prolongs_its_lease(core: Core, monkeypatch: pytest.MonkeyPatch):
    job = Job("wake", timedelta(seconds=1), lambda desk: lambda: write(desk))
    made = Loop(core.desk, "a", job, lasts=LASTS)
    made.round()
    short = core.at() + timedelta(seconds=1)
    with core.store.write() as tx:
        tx.connection.execute(sa.update(tx.tables.leases).values(until=short))
    monkeypatch.setattr(made._tenure, "take", lambda: True)
    made._tenure._renew_at = 0.0
    made.round()
    (until,) = [row["until"] for row in core.rows("leases") if row["name"] == "wake"]
    assert until > short


@pytest.mark.postgres
def test_nobody_takes_the_lease_from_under_a_batch(postgres_core: Core):
    """The batch may end after the lease does: the next holder begins after it."""
    seen: list[object] = []

    def body(desk: Desk) -> None:
        with desk.store.write() as tx:
            tx.now()
            with postgres_core.store.write() as other:
                at = other.now() + timedelta(minutes=5)
                seen.append(workers.take_lease(other, "wake", "b", lasts=LASTS, at=at))

    loop(postgres_core, body).round()
    assert seen == [None]


def test_every_job_asks_for_its_lease(core: Core):
    """One round of each, held and then lost: what writes is stopped."""
    for job in jobs(core.settings, Metrics(), Lookout(core.store)):
        Loop(core.desk, "a", job, lasts=LASTS).round()
    assert {"admission", "wake", "reconciler", "disposal", "keys"} <= leases(core)
