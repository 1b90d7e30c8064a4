"""Acceptance: what is asked becomes one row, once, or nothing at all."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.domain.access import Caller, everywhere
from manent_server.domain.errors import (
    Conflict,
    Invalid,
    KeyReused,
    ManentError,
    NameInvalid,
    NotAllowed,
    NotFound,
    Refused,
)
from manent_server.domain.marks import Sort
from manent_server.store import queue
from manent_server.usecases import mark, roll_back, submit
from manent_server.usecases.requests import (
    DeployRequest,
    IdempotencyKey,
    MarkRequest,
    RollbackRequest,
)
from manent_server.worker import jobs
from tests.integration.core.running import good
from tests.rig.core import ADMIN, VIEWER, Core


def ask(core: Core, request: DeployRequest, key: IdempotencyKey | None = None) -> dict[str, Any]:
    return submit.submit(core.desk, request, caller=ADMIN, key=key)


REQUEST = DeployRequest("shop", "staging", "1")


def test_an_accepted_deploy_is_one_row_with_a_frozen_order(core: Core):
    answer = ask(core, REQUEST)
    row = core.deploy(answer["id"])
    assert (row.number, row.requested_by, row.root) == (1, "ann", row.id)
    assert row.order_body["plugin"] == "fake"
    assert len(row.order_digest) == 64
    assert [deed["action"] for deed in core.rows("audit")] == ["deploy.requested"]


def test_numbers_rise_by_one_in_an_environment(core: Core):
    numbers = [core.deploy(core.submit(app)).number for app in ("shop", "mail", "news")]
    assert numbers == [1, 2, 3]
    assert core.deploy(core.submit("shop", "production")).number == 1


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (DeployRequest("shopp", "staging", "1"), NotFound),
        (DeployRequest("shop", "stagin", "1"), NotFound),
        (DeployRequest("Shop!", "staging", "1"), NameInvalid),
        (DeployRequest("shop", "staging", "1 0"), NameInvalid),
        (DeployRequest("shop", "staging", None), Invalid),
        (DeployRequest("shop", "staging", "1", kind="rollback"), Invalid),
        (DeployRequest("shop", "staging", "1", sha256="x"), NameInvalid),
        (DeployRequest("shop", "staging", "1", sha256="0" * 64), Invalid),
        (DeployRequest("shop", "staging", "1", override=("approval",)), Invalid),
        (DeployRequest("shop", "staging", "1", if_blocked="maybe"), Invalid),
        (DeployRequest("shop", "staging", "1", targets=()), Invalid),
        (DeployRequest("shop", "staging", "1", targets=("wab",)), NotFound),
        (DeployRequest("shop", "staging", None, kind="redeploy"), Conflict),
    ],
)
def test_what_cannot_be_done_creates_nothing(
    core: Core, asked: DeployRequest, error: type[ManentError]
):
    with pytest.raises(error) as caught:
        ask(core, asked)
    assert caught.value.next
    assert core.rows("deploys") == []
    assert core.rows("audit") == []


def test_a_viewer_may_not_deploy(core: Core):
    with pytest.raises(NotAllowed):
        submit.submit(core.desk, REQUEST, caller=VIEWER)
    with pytest.raises(NotAllowed):
        roll_back.roll_back(
            core.desk,
            RollbackRequest("shop", "staging"),
            caller=VIEWER,
        )


def test_who_does_not_want_to_wait_is_refused(core: Core):
    mark.put(core.desk, MarkRequest(Sort.LOCK, "audit", "shop"), caller=ADMIN)
    with pytest.raises(Refused, match="locked by ann: audit") as caught:
        ask(core, DeployRequest("shop", "staging", "1", if_blocked="refuse"))
    assert caught.value.facts["gates"][0]["gate"] == "lock"
    assert core.rows("deploys") == []


def test_a_repeated_key_is_one_deploy(core: Core):
    """I6"""
    key = IdempotencyKey("k", "/deploys", "d")
    assert ask(core, REQUEST, key)["id"] == ask(core, REQUEST, key)["id"]
    assert len(core.rows("deploys")) == 1
    with pytest.raises(KeyReused):
        ask(core, REQUEST, IdempotencyKey("k", "/deploys", "other"))
    other = submit.submit(core.desk, REQUEST, caller=Caller("bob", everywhere("admin")), key=key)
    assert len(core.rows("deploys")) == 2
    assert other["requested_by"] == "bob"


def together(*deeds: Callable[[], Any]) -> list[Any]:
    """Do them at once, each on a connection of its own."""
    gate, found = threading.Barrier(len(deeds)), list[Any]()

    def go(deed: Callable[[], Any]) -> None:
        gate.wait()
        found.append(deed())

    threads = [threading.Thread(target=go, args=(deed,)) for deed in deeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_two_who_use_a_key_at_once_are_told_of_one_deploy(core: Core):
    """I6"""
    key = IdempotencyKey("k", "/deploys", "d")
    answers = together(*[lambda: ask(core, REQUEST, key)] * 4)
    assert len({answer["id"] for answer in answers}) == 1
    assert len(core.rows("deploys")) == 1


def test_two_who_lock_with_a_key_at_once_set_one_lock(core: Core):
    """I6: nothing else keeps these two apart."""
    key = IdempotencyKey("k", "/locks", "d")
    answers = together(
        *[lambda: mark.put(core.desk, MarkRequest(Sort.LOCK, "audit"), caller=ADMIN, key=key)] * 4
    )
    assert len({answer["id"] for answer in answers}) == 1
    assert len(core.rows("marks")) == 1


def test_submits_at_once_are_numbered_without_a_hole(core: Core):
    together(*[lambda: core.submit("shop")] * 6)
    assert sorted(row["number"] for row in core.rows("deploys")) == [1, 2, 3, 4, 5, 6]
    tickets = [row["ticket"] for row in core.rows("deploys")]
    assert len(set(tickets)) == 6


def test_a_key_is_kept_its_time_and_longer_than_its_deploy(
    core: Core, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jobs, "_KEYS", 2)
    asked = [ask(core, REQUEST, IdempotencyKey(f"k{n}", "/deploys", "d"))["id"] for n in range(3)]
    mark.put(
        core.desk,
        MarkRequest(Sort.LOCK, "audit"),
        caller=ADMIN,
        key=IdempotencyKey("k", "/locks", "d"),
    )
    for deploy in asked:
        core.set(deploy, state="SUCCESS", outcome="deployed", ended_at=core.at())
    jobs.forget_keys(core.desk)
    assert len(core.rows("keys")) == 4  # not old enough

    core.configure(
        retention=replace(core.settings.retention, keys_max_age=timedelta(microseconds=1))
    )
    with core.store.write() as tx:
        d = tx.tables.deploys
        tx.connection.execute(
            sa.delete(tx.tables.wakes).where(tx.tables.wakes.c.deploy == asked[0])
        )
        tx.connection.execute(sa.delete(d).where(d.c.id == asked[0]))
    jobs.forget_keys(core.desk)
    assert sorted(row["subject"] for row in core.rows("keys")) == sorted(asked[1:])


def back(core: Core, to: str | None = None, **more: Any) -> dict[str, Any]:
    return roll_back.roll_back(
        core.desk, RollbackRequest("shop", "staging", to, **more), caller=ADMIN
    )


def test_a_rollback_goes_to_the_head_of_the_queue_and_holds_automation(core: Core):
    first, _ = good(core, "1"), good(core, "2")
    core.submit("mail")
    core.submit("news")
    answer = back(core, reason="broken")
    assert (answer["version"], answer["kind"], answer["position"]) == ("1", "rollback", 1)
    assert answer["rollback_to"] == {"deploy": first, "version": "1"}
    (hold,) = core.rows("marks")
    assert (hold["reason"], hold["deploy"]) == ("broken", answer["id"])


def test_a_rollback_goes_to_the_version_that_was_named(core: Core):
    first, _, _ = good(core, "1"), good(core, "2"), good(core, "3")
    assert back(core, "1")["rollback_to"]["deploy"] == first
    with pytest.raises(Conflict) as caught:
        back(core, "9")
    assert caught.value.code == "nothing_to_roll_back_to"


def test_there_must_be_something_to_go_back_to(core: Core):
    with pytest.raises(Conflict, match="has nothing to roll back to"):
        back(core)
    good(core, "1")
    with pytest.raises(Conflict, match="has nothing to roll back to"):
        back(core)
    assert core.rows("marks") == []


def test_after_a_half_done_deploy_the_last_good_one_is_brought_back(core: Core):
    good(core, "1")
    live = good(core, "2")
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.inventory.update().values(state="unknown", version=None))
    assert back(core)["rollback_to"]["deploy"] == live


def test_a_repeated_key_is_one_rollback(core: Core):
    good(core, "1")
    good(core, "2")
    key = IdempotencyKey("k", "/rollbacks", "d")
    request = RollbackRequest("shop", "staging")
    ids = {roll_back.roll_back(core.desk, request, caller=ADMIN, key=key)["id"] for _ in range(2)}
    assert len(ids) == 1


def test_a_redeploy_takes_the_live_version_by_its_digest(core: Core):
    good(core, "1")
    answer = ask(core, DeployRequest("shop", "staging", None, kind="redeploy"))
    assert (answer["version"], answer["kind"], answer["sha256"]) == ("1", "redeploy", "1" * 64)


def test_an_expiry_before_the_start_is_refused(core: Core):
    at = core.at() + timedelta(hours=1)
    with pytest.raises(Invalid):
        core.submit(not_before=at, not_after=at)


def succeed(core: Core, deploy: str) -> None:
    artifacts = {"web": {"url": "file:///x", "sha256": core.deploy(deploy).version * 64}}
    core.set(deploy, state="SUCCESS", phase=None, prepared={"artifacts": artifacts})
    with core.store.write() as tx:
        queue.free_slot(tx, deploy)
    core.admit()


def test_a_redeploy_brings_what_is_live_when_its_turn_comes(core: Core):
    """A version that is deployed while it waits is not taken back by it."""
    core.worker()
    wrote = {
        name: {"id": name, "author": name, "at": "2027-01-01T00:00:00Z"} for name in ("ann", "eve")
    }
    good = core.submit(version="1", changes=[wrote["ann"]])
    running = core.submit(version="2", changes=[wrote["eve"], wrote["ann"]])
    succeed(core, good)
    deploy = ask(core, DeployRequest("shop", "staging", None, kind="redeploy"))["id"]
    named = core.submit("shop", "staging", "1", kind="redeploy")
    assert (core.deploy(deploy).version, core.deploy(deploy).phase) == ("1", "queued")
    succeed(core, running)
    row = core.deploy(deploy)
    assert core.slots() == [deploy]
    assert (row.version, row.sha256) == ("2", "2" * 64)
    assert row.warnings == [f"brings 2, live since deploy {running}, in place of 1"]
    assert list(row.changes) == [wrote["ann"], wrote["eve"]], "none of these may approve it"
    assert core.deploy(named).version == "1"
