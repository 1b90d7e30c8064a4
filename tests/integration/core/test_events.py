"""Events: one for each deed, in one order for everybody, none missed."""

import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.domain.deploy import Outcome
from manent_server.domain.errors import Conflict
from manent_server.domain.marks import Sort
from manent_server.store import records
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import listen, mark, publish
from manent_server.usecases.requests import MarkRequest
from manent_server.worker.loops import Job, Loop
from tests.integration.core.running import GOOD, Running
from tests.rig.core import ADMIN, Core, long_ago

LASTS = timedelta(seconds=30)


def tell(core: Core, name: str = "lock.set", **more: Any) -> None:
    with core.store.write() as tx:
        records.write_audit(tx, Deed("ann", name, **more), at=tx.now())


def read(core: Core, after: int = 0, **more: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = listen.events(core.desk, after=after, limit=500, **more)["items"]
    return items


def types(core: Core) -> list[str]:
    publish.publish(core.desk)
    return [event["type"] for event in read(core)]


def test_an_event_is_there_with_its_deed_or_not_at_all(core: Core):
    def undone(tx: Transaction) -> None:
        records.write_audit(tx, Deed("ann", "lock.set"), at=tx.now())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        core.store.repeat(undone)
    tell(core, detail={"lock": "l1", "reason": "a\0b"}, environment="staging")

    assert types(core) == ["lock.set"]
    [event], [deed] = read(core), core.rows("audit")
    assert event["id"] == deed["id"]
    assert event["detail"] == deed["detail"] == {"lock": "l1", "reason": "a\ufffdb"}
    assert (event["actor"], event["environment"], event["position"]) == ("ann", "staging", 1)


def test_several_deeds_of_one_transaction_keep_their_order(core: Core):
    names = ["deploy.requested", "deploy.delayed", "lock.set", "lock.lifted"]
    with core.store.write() as tx:
        records.write_audits(tx, [Deed("ann", name) for name in names], at=tx.now())

    assert types(core) == names
    assert [event["position"] for event in read(core)] == [1, 2, 3, 4]


def test_a_token_is_no_event(core: Core):
    with core.store.write() as tx:
        deeds = [Deed("ann", "token.created"), Deed("ann", "lock.set")]
        records.write_audits(tx, deeds, at=tx.now())
    tell(core, "token.revoked")

    assert types(core) == ["lock.set"]
    assert len(core.rows("audit")) == 3


def test_a_deploy_tells_its_life(core: Core):
    running = Running(core)
    running.perform("deploy:web", GOOD)
    running.close(Outcome.DEPLOYED)

    assert types(core) == ["deploy.requested", "deploy.started", "deploy.ended"]
    started, ended = read(core)[1:]
    assert started["detail"]["executor"] == "w1"
    assert {key: ended["detail"][key] for key in ("outcome", "version", "number", "kind")} == {
        "outcome": "deployed",
        "version": "1",
        "number": 1,
        "kind": "deploy",
    }
    assert {event["deploy"] for event in read(core)} == {running.deploy.id}


def test_a_deploy_that_has_to_wait_says_so(core: Core):
    mark.put(core.desk, MarkRequest(Sort.LOCK, "audit", "shop"), caller=ADMIN)
    core.submit()

    assert types(core) == ["lock.set", "deploy.requested", "deploy.delayed"]
    assert read(core)[2]["detail"] == {"gates": ["shop is locked by ann: audit"]}


def test_a_repeated_prelude_tells_of_one_start(core: Core):
    running = Running(core)
    running.begin(running.deploy.id)

    assert types(core).count("deploy.started") == 1


def test_events_of_one_place_can_be_read_alone(core: Core):
    mark.put(core.desk, MarkRequest(Sort.LOCK, "audit", "shop"), caller=ADMIN)
    mark.put(core.desk, MarkRequest(Sort.LOCK, "audit", "mail", "staging"), caller=ADMIN)
    publish.publish(core.desk)

    assert [event["position"] for event in read(core, application="mail")] == [2]
    page = listen.events(core.desk, after=0, limit=10, application="shop")
    assert (len(page["items"]), page["next"]) == (1, 2)
    assert listen.events(core.desk, after=0, limit=1)["next"] == 1
    with pytest.raises(Conflict, match="9 lies beyond the newest event, 2"):
        listen.events(core.desk, after=9, limit=1)


@pytest.mark.postgres
def test_what_commits_late_comes_late_and_is_not_missed(postgres_core: Core):
    """A reader has resumed past an event whose row has a lower number than one it has seen."""
    core = postgres_core
    with core.store.write() as slow:
        records.write_audit(slow, Deed("ann", "lock.set"), at=slow.now())
        tell(core, "lock.lifted")
        assert types(core) == ["lock.lifted"]

    publish.publish(core.desk)
    assert [event["type"] for event in read(core, after=1)] == ["lock.set"]


def test_a_round_that_finds_nothing_writes_nothing(core: Core):
    tell(core)
    assert publish.publish(core.desk) == 1
    assert publish.publish(core.desk) == 0


def test_only_the_holder_of_the_lease_numbers(core: Core):
    """I13: two servers number in turn, and no position is given twice."""
    loops = [
        Loop(core.desk, holder, Job("outbox", LASTS, _publisher), lasts=LASTS) for holder in "ab"
    ]
    for _ in range(3):
        tell(core)
        for loop in loops:
            loop.round()

    assert [event["position"] for event in read(core)] == [1, 2, 3]
    assert {row["holder"] for row in core.rows("leases")} == {"a"}


def _publisher(desk: Any) -> Callable[[], object]:
    return lambda: publish.publish(desk)


def _write(core: Core, name: str, count: int) -> None:
    """Commit events one after the other, each after a while in which others commit."""
    chance = random.Random(name)  # noqa: S311 - a schedule

    def work(tx: Transaction, number: int) -> None:
        deed = Deed(name, "lock.set", detail={"number": number})
        records.write_audit(tx, deed, at=tx.now())
        if tx.dialect == "postgresql":
            time.sleep(chance.random() / 200)

    for number in range(count):
        core.store.repeat(partial(work, number=number))


def _number(core: Core, holder: str, stopped: threading.Event) -> None:
    loop = Loop(core.desk, holder, Job("outbox", LASTS, _publisher), lasts=LASTS)
    while not stopped.is_set():
        loop.round()


def _read_all(core: Core, count: int) -> list[dict[str, Any]]:
    """Pages of a few, each from where the one before ended."""
    seen: list[dict[str, Any]] = []
    after, limit = 0, time.monotonic() + 30
    while len(seen) < count and time.monotonic() < limit:
        page = listen.events(core.desk, after=after, limit=7)
        seen += page["items"]
        after = page["next"]
    return seen


def test_a_reader_that_resumes_misses_nothing_while_events_commit(core: Core):
    """Four writers commit in any order, two servers number, a reader breaks off all the time."""
    each, names, stopped = 15, "wxyz", threading.Event()
    threads = [threading.Thread(target=_number, args=(core, holder, stopped)) for holder in "ab"]
    threads += [threading.Thread(target=_write, args=(core, name, each)) for name in names]
    for thread in threads:
        thread.start()
    try:
        seen = _read_all(core, each * len(names))
    finally:
        stopped.set()
        for thread in threads:
            thread.join()

    assert [event["position"] for event in seen] == list(range(1, each * len(names) + 1))
    for name in names:
        mine = [event["detail"]["number"] for event in seen if event["actor"] == name]
        assert mine == list(range(each))


def test_old_events_go_and_the_count_goes_on(core: Core):
    for _ in range(3):
        tell(core)
    publish.publish(core.desk)
    with core.store.write() as tx:
        e = tx.tables.events
        tx.connection.execute(sa.update(e).values(at=long_ago()))

    publish.forget(core.desk)
    assert [event["position"] for event in read(core)] == [3]
    tell(core)
    publish.publish(core.desk)
    assert [event["position"] for event in read(core)] == [3, 4]


def test_a_mark_that_manent_sets_is_told_like_one_of_a_person(core: Core):
    """A failed rollback locks; a deploy that was rolled back holds automation back."""
    first = Running(core)
    first.close(Outcome.ROLLED_BACK)
    second = Running(core, "mail")
    second.close(Outcome.ROLLBACK_FAILED)
    publish.publish(core.desk)

    told = {event["type"]: event for event in read(core)}
    assert told["hold.set"]["deploy"] == first.deploy.id
    assert told["lock.set"]["deploy"] == second.deploy.id
    assert {told["hold.set"]["actor"], told["lock.set"]["actor"]} == {"manent"}
    assert told["lock.set"]["detail"]["lock"] in {row["id"] for row in core.rows("marks")}
