"""Every COMMIT happens and its answer is lost: what is repeated finds that it was done."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
import sqlalchemy as sa

from manent_server.domain.marks import Sort
from manent_server.engine.shop import Unwound
from manent_server.store.repeat import never, until_answered
from manent_server.store.transaction import Store, Transaction
from manent_server.usecases import abandon, cancel, mark, recover, rerun, submit, wake
from manent_server.usecases.requests import (
    AbandonRequest,
    CancelRequest,
    DeployRequest,
    MarkRequest,
    RecoverRequest,
    RerunRequest,
)
from tests.integration.core.crew import Hand, ended, inventory, log, place
from tests.integration.core.running import Running
from tests.integration.core.test_once import say
from tests.rig.core import ADMIN, Core, long_ago
from tests.rig.fake_runner import BAD

T = TypeVar("T")


class Forgetful(Store):
    """A database that is cut off after each first COMMIT of a transaction."""

    def __init__(self, store: Store) -> None:
        self.__dict__.update(store.__dict__)

    def repeat(
        self,
        work: Callable[[Transaction], T],
        *,
        patience: timedelta | None = None,
        stop: Callable[[], bool] = never,
    ) -> T:
        lost: list[bool] = []

        def attempt() -> T:
            with self.write() as tx:
                result = work(tx)
            if not lost:
                lost.append(True)
                raise sa.exc.OperationalError("COMMIT", {}, OSError("gone"))
            return result

        return until_answered(attempt, self._outages, patience=patience, stop=stop)


@pytest.fixture
def cut_off(core: Core) -> Core:
    """The core on such a database."""
    store = Forgetful(core.store)
    core.admission = core.admission.under(store)
    core.desk = replace(core.desk, store=store, admission=core.admission)
    return core


@pytest.fixture
def hand(cut_off: Core, tmp_path: Path) -> Hand:
    place(cut_off, (("a",), ("b",)))
    return Hand(cut_off, tmp_path, cut_off.worker(), store=cut_off.desk.store)


def deeds(core: Core, deploy: str) -> Counter[str]:
    return Counter(row["action"] for row in core.rows("audit") if row["deploy"] == deploy)


def assert_once(core: Core, deploy: str) -> None:
    """I2, I3, I11: each deed, attempt and line is there once."""
    assert set(deeds(core, deploy).values()) == {1}
    attempts = Counter(attempt.step for attempt in core.attempts(deploy))
    assert set(attempts.values()) <= {1}
    said = log(core, deploy)
    assert len(said) == len(set(said))
    assert core.deploy(deploy).log_next == len(said) + 1


def test_a_deploy_is_done_once(cut_off: Core, hand: Hand):
    deploy = cut_off.submit()
    assert cut_off.deploy(deploy).dispatch == 1
    assert hand.run(deploy) is None
    assert ended(cut_off, deploy) == ("SUCCESS", "deployed")
    assert hand.runner.names() == ["deploy:a", "verify:a", "deploy:b", "verify:b"]
    assert_once(cut_off, deploy)
    assert cut_off.slots() == []


def test_a_rollback_is_done_once(cut_off: Core, hand: Hand):
    assert hand.run(cut_off.submit(version="0")) is None
    hand.runner.ends["deploy:b"] = [BAD]
    deploy = cut_off.submit(version="1")
    assert hand.run(deploy) is None
    assert ended(cut_off, deploy) == ("ERROR", "rolled_back")
    assert inventory(cut_off) == {"a": ("known", "0"), "b": ("known", "0")}
    assert_once(cut_off, deploy)
    assert len([row for row in cut_off.rows("marks") if row["sort"] == "hold"]) == 1


def test_a_wait_is_gone_on_with_once(cut_off: Core, hand: Hand):
    place(cut_off, (("a",), ("b",)), soak=timedelta(hours=1))
    deploy = cut_off.submit()
    assert hand.run(deploy) is None
    due = cut_off.deploy(deploy).deadline_at
    assert [row["reason"] for row in cut_off.rows("wakes")] == ["soak"]
    before = cut_off.at() - timedelta(hours=2)
    with cut_off.store.write() as tx:
        tx.connection.execute(tx.tables.wakes.update().values(at=long_ago()))
        tx.connection.execute(
            tx.tables.steps.update()
            .where(tx.tables.steps.c.name == "soak:1")
            .values(started_at=before)
        )
    assert wake.wake_due(cut_off.desk) == 1
    assert cut_off.deploy(deploy).dispatch == 2
    assert cut_off.deploy(deploy).deadline_at == due
    assert hand.run(deploy) is None
    assert ended(cut_off, deploy) == ("SUCCESS", "deployed")


def test_a_cancel_is_recorded_once(cut_off: Core, hand: Hand):
    hand.runner.held.add("deploy:a")
    deploy = cut_off.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:a")
    cancel.cancel(cut_off.desk, deploy, CancelRequest(), caller=ADMIN)
    hand.watch.look()
    assert trip.join() is None
    assert ended(cut_off, deploy) == ("CANCELLED", "cancelled")
    assert_once(cut_off, deploy)


def test_a_cancel_and_its_end_on_a_word_are_recorded_once(cut_off: Core):
    running = Running(cut_off)
    assert running.hand_out(running.errand()).refusal is None
    cut_off.set_worker("w1", heartbeat_at=long_ago())
    deploy = running.deploy.id
    found = cancel.cancel(cut_off.desk, deploy, CancelRequest(), caller=ADMIN)
    assert len(found["warnings"]) == 1
    assert set(deeds(cut_off, deploy).values()) == {1}


def test_what_is_given_up_is_given_up_once(cut_off: Core):
    running = Running(cut_off)
    assert running.hand_out(running.errand()).refusal is None
    deploy = running.deploy.id
    cut_off.set(deploy, cancel_requested_at=long_ago(), cancel_by="ann")
    request = AbandonRequest("gone", force=True)
    abandon.abandon(cut_off.desk, deploy, request, caller=ADMIN)
    assert set(deeds(cut_off, deploy).values()) == {1}
    assert len(cut_off.rows("marks")) == 1


@pytest.mark.parametrize("said", ["retry", "skip", "rollback"])
def test_an_answer_is_given_once(cut_off: Core, hand: Hand, said: str):
    cut_off.change_environment("staging", on_exhausted="pause")
    hand.runner.ends["deploy:b"] = [BAD]
    deploy = cut_off.submit()
    assert hand.run(deploy) is None
    say(cut_off, deploy, said)
    row = cut_off.deploy(deploy)
    assert (row.dispatch, row.pass_number) == (2, 1 if said == "rollback" else 2)
    assert deeds(cut_off, deploy)["deploy.answered"] == 1
    assert hand.run(deploy) is None
    assert not cut_off.deploy(deploy).is_live


def test_a_rerun_is_accepted_once(cut_off: Core, hand: Hand):
    hand.runner.ends["deploy:b"] = [BAD]
    deploy = cut_off.submit()
    assert hand.run(deploy) is None
    made = rerun.rerun(cut_off.desk, deploy, RerunRequest(None, "again", ()), caller=ADMIN)
    assert [row["id"] for row in cut_off.rows("deploys") if row["rerun_of"]] == [made["id"]]
    assert set(deeds(cut_off, made["id"]).values()) == {1}
    assert cut_off.deploy(made["id"]).dispatch == 1


def test_a_drain_hands_back_once(cut_off: Core, hand: Hand):
    hand.runner.held.add("deploy:a")
    deploy = cut_off.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:a")
    hand.cut()
    assert trip.join() is Unwound
    assert cut_off.deploy(deploy).dispatch == 2
    assert [a.result for a in cut_off.attempts(deploy)] == ["interrupted"]


def test_a_takeover_and_a_repair_are_made_once(cut_off: Core):
    lost, other = Running(cut_off), cut_off.worker("w2")
    cut_off.set_worker("w1", heartbeat_at=long_ago())
    deploy = lost.deploy.id
    recover.recover(cut_off.desk, RecoverRequest("w1"), caller=ADMIN)
    assert cut_off.deploy(deploy).dispatch == 2
    lost.worker = other
    lost.begin(deploy)
    cut_off.set_worker("w2", recovered_by="w3")
    cut_off.worker("w3")
    assert len(cut_off.reconciler().round()) <= 1
    assert cut_off.deploy(deploy).dispatch == 3
    assert deeds(cut_off, deploy)["deploy.taken_over"] == 1
    said = [line for line in log(cut_off, deploy) if "anew" in line or "taken over" in line]
    assert len(said) == 2


def test_a_mark_is_set_once(cut_off: Core):
    made = mark.put(cut_off.desk, MarkRequest(Sort.LOCK, "audit"), caller=ADMIN)
    assert [row["id"] for row in cut_off.rows("marks")] == [made["id"]]
    mark.lift(cut_off.desk, Sort.LOCK, made["id"], caller=ADMIN)
    assert Counter(row["action"] for row in cut_off.rows("audit")) == {
        "lock.set": 1,
        "lock.lifted": 1,
    }


def test_a_request_is_accepted_once(cut_off: Core):
    made = submit.submit(cut_off.desk, DeployRequest("shop", "staging", "1"), caller=ADMIN)
    assert [row["id"] for row in cut_off.rows("deploys")] == [made["id"]]
    assert set(deeds(cut_off, made["id"]).values()) == {1}
