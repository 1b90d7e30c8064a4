"""Recover: one claim of a lost worker, and everything it left goes on elsewhere."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from manent_server.domain.access import Caller, everywhere
from manent_server.domain.errors import Conflict, NotAllowed, NotFound
from manent_server.engine import prelude
from manent_server.engine.prelude import Verdict
from manent_server.store import work
from manent_server.usecases import executors, explain, recover
from manent_server.usecases.requests import IdempotencyKey, RecoverRequest
from tests.integration.core.running import Running
from tests.rig.core import ADMIN, Core, engine_version, long_ago

SILENT = timedelta(minutes=2)
BOB = Caller("bob", everywhere("admin"))


def ask(core: Core, executor: str = "w1", **more: Any) -> dict[str, Any]:
    caller, key = more.pop("caller", ADMIN), more.pop("key", None)
    return recover.recover(core.desk, RecoverRequest(executor, **more), caller=caller, key=key)


def lose(core: Core, executor: str = "w1") -> None:
    core.set_worker(executor, heartbeat_at=core.at() - SILENT)


def listed(core: Core) -> dict[str, Mapping[str, Any]]:
    found = executors.executors(core.desk, caller=ADMIN)
    return {row["id"]: row for row in found["executors"]}


@pytest.fixture
def lost(core: Core) -> Running:
    """A deploy in mid-hook on w1, which is lost; w2 lives."""
    running = Running(core)
    with core.store.write() as tx:
        values = {"state": "succeeded", "ended_at": tx.now()}
        work.update_step(tx, running.deploy.id, 1, "prepare", **values)
    running.hand_out(running.errand())
    core.worker("w2")
    lose(core)
    return running


def test_a_lost_worker_is_claimed_and_its_deploy_dispatched_anew(core: Core, lost: Running):
    before = core.deploy(lost.deploy.id)
    answer = ask(core, reason="node burnt")
    row = core.deploy(lost.deploy.id)
    assert (row.state, row.phase, row.executor) == ("ENQUEUED", "interrupted", None)
    assert (row.dispatch, core.slots()) == (before.dispatch + 1, [row.id])
    assert row.epoch > before.epoch
    assert answer["recovered_by"] == "user:ann"
    [found] = answer["workflows"]
    assert (found["id"], found["from_step"], found["resumable"]) == (row.id, "deploy:web", True)
    assert answer["unowned_seconds"] >= SILENT.total_seconds()
    assert listed(core)["w1"]["recovered_by"] == "user:ann"


def test_the_answer_rests_on_the_word_of_who_asked(core: Core, lost: Running):
    """Without automatic recovery a lease has no end: the person says that the node is down."""
    assert "the word of user:ann that w1 is down" in ask(core)["rests_on"]
    attempts = {attempt.step: attempt for attempt in core.attempts(lost.deploy.id)}
    assert (attempts["deploy:web"].result, attempts["deploy:web"].died) == ("interrupted", True)
    assert "the word of user:ann" in (attempts["deploy:web"].error or {})["message"]


def test_a_recorded_stop_is_no_death(core: Core, lost: Running):
    core.set_worker("w1", stopped_at=core.at())
    ask(core)
    assert [a.died for a in core.attempts(lost.deploy.id) if a.step == "deploy:web"] == [False]


def test_everything_it_left_goes_on_in_one_transaction(core: Core, lost: Running):
    """Also what never began: each under an epoch of its own."""
    mail = core.submit("mail", "production")
    core.set(mail, executor="w1", incarnation=lost.worker.incarnation)
    news = core.submit("news", "production")
    Running.begin(lost, news)
    answer = ask(core)
    rows = [core.deploy(found["id"]) for found in answer["workflows"]]
    assert {row.id for row in rows} == {lost.deploy.id, mail, news}
    assert {row.phase for row in rows} == {"interrupted", "dispatched"}
    assert len({row.epoch for row in rows}) == 3
    for row in rows:
        delivery = core.delivery(row.id)
        assert delivery is not None
        assert not delivery.is_taken
        assert any("taken over from w1" in text["text"] for text in core.rows("logs"))


def test_leases_that_end_are_waited_for(core: Core, lost: Running):
    until = core.at() + timedelta(minutes=1)
    with core.store.write() as tx:
        for attempt in work.open_attempts(tx, executor="w1"):
            work.update_attempt(tx, attempt.id, lease_until=until)
    assert ask(core)["rests_on"].startswith("the leases of 1 attempt(s)")
    assert [a.ended_at for a in core.attempts(lost.deploy.id) if a.step == "deploy:web"] == [None]
    assert "the word of user:bob" in ask(core, caller=BOB, force=True)["rests_on"]
    assert all(attempt.ended_at for attempt in core.attempts(lost.deploy.id))


def test_a_dry_run_changes_nothing(core: Core, lost: Running):
    before = core.deploy(lost.deploy.id)
    answer = ask(core, dry_run=True)
    assert (answer["dry_run"], answer["recovered_by"]) == (True, None)
    assert [found["id"] for found in answer["workflows"]] == [lost.deploy.id]
    assert core.deploy(lost.deploy.id) == before
    assert [row["action"] for row in core.rows("audit")].count("executor.recovered") == 0
    assert ask(core)["workflows"] == answer["workflows"]


def test_a_dry_run_by_force_does_not_count_on_the_worker_itself(core: Core):
    running = Running(core)
    for wanted in (True, False):
        [found] = ask(core, dry_run=wanted, force=True)["workflows"]
        assert (found["id"], found["resumable"]) == (running.deploy.id, False)
        assert found["why"] == "no live worker takes from pool default"


def test_the_record_says_who_took_what_from_which_step(core: Core, lost: Running):
    ask(core, reason="node burnt")
    deeds = {row["action"]: row for row in core.rows("audit")}
    whole, one = deeds["executor.recovered"], deeds["deploy.taken_over"]
    assert (whole["actor"], whole["detail"]["reason"]) == ("ann", "node burnt")
    assert (one["deploy"], one["detail"]["from_step"]) == (lost.deploy.id, "deploy:web")
    assert b'manent_takeovers_total{kind="manual"} 1.0' in core.desk.metrics.render()


def test_a_second_recover_is_refused(core: Core, lost: Running):
    """B21: one claim; the others are told who has it."""
    ask(core)
    with pytest.raises(Conflict, match="recovered already by user:ann") as refused:
        ask(core, caller=BOB)
    assert refused.value.code == "already_recovered"
    assert core.deploy(lost.deploy.id).dispatch == 2


def test_the_same_request_again_is_answered_again(core: Core, lost: Running):
    key = IdempotencyKey("k", "/api/v1/admin/recover", "digest")
    assert ask(core, key=key) == ask(core, key=key)
    assert core.deploy(lost.deploy.id).dispatch == 2


def test_a_lost_answer_to_the_commit_takes_nothing_twice(core: Core, lost: Running):
    claim = recover.Claim("c1", "w1", "w2", "manent", demand=lambda *_: None)
    for _ in range(2):
        with core.store.write() as tx:
            answer = recover.take(tx, core.desk, claim, [])
    assert [found["id"] for found in answer["workflows"]] == [lost.deploy.id]
    assert core.deploy(lost.deploy.id).dispatch == 2


@pytest.mark.parametrize("sql", ["alive", "unknown"])
def test_what_is_not_lost_or_not_known_is_refused(core: Core, lost: Running, sql: str):
    executor = {"alive": "w2", "unknown": "nobody"}[sql]
    with pytest.raises(Conflict) as refused:
        ask(core, executor)
    assert refused.value.code == f"executor_{sql}"
    assert "--force" in refused.value.next
    assert ask(core, executor, force=True)["workflows"] == []


def test_a_forced_worker_owns_nothing_any_more(core: Core):
    running = Running(core)
    core.worker("w2")
    ask(core, force=True)
    assert running.hand_out(running.errand()).refusal == "not_mine"
    claim = core.claim(running.deploy.id, 2, running.worker)
    with core.store.write() as tx:
        assert prelude.begin(tx, claim, core.dispatcher).verdict == Verdict.FOREIGN


def test_force_works_where_the_last_heartbeat_is_of_a_time_to_come(core: Core, lost: Running):
    """The database's clock was set back: the worker has been silent for no time at all."""
    core.set_worker("w1", heartbeat_at=core.at() + timedelta(days=2))
    answer = ask(core, force=True)
    assert (answer["unowned_seconds"], len(answer["workflows"])) == (0.0, 1)


def test_a_viewer_may_look_and_not_recover(core: Core, lost: Running):
    viewer = Caller("vic", everywhere("viewer"))
    assert executors.executors(core.desk, caller=viewer)["executors"]
    with pytest.raises(NotAllowed):
        ask(core, caller=viewer)


def test_a_dispatch_that_was_taken_and_never_begun_is_recovered_too(core: Core):
    """B140: one running and one just claimed; none is invisible."""
    worker = core.worker()
    deploy = core.submit()
    core.set_delivery(deploy, "PENDING", worker.engine_id)
    core.worker("w2")
    lose(core)
    assert listed(core)["w1"]["pending"] == {"0.1.0": 1}
    told = explain.explain(core.desk, deploy)
    assert told["blocked_by"] == {"id": deploy, "executor": "w1", "alive": False}
    assert told["summary"] == (
        "taken by w1, a worker that sends no heartbeat, and not begun; free when w1 starts again "
        f"or by: manent-server admin recover --executor w1, or manent cancel {deploy}"
    )
    assert [found["from_step"] for found in ask(core)["workflows"]] == ["prepare"]
    row = core.deploy(deploy)
    assert (row.dispatch, row.phase) == (2, "dispatched")


def test_an_unregistered_executor_is_listed_and_recovered_by_force(core: Core, lost: Running):
    core.set(lost.deploy.id, executor="gone")
    with core.store.write() as tx:
        a = tx.tables.attempts
        tx.connection.execute(a.update().values(executor="gone"))
    row = listed(core)["gone"]
    assert row == {"id": "gone", "registered": False, "alive": False, "pending": {"0.1.0": 1}}
    answer = ask(core, "gone", force=True)
    assert (answer["recovered_by"], len(answer["workflows"])) == ("user:ann", 1)
    assert all(attempt.ended_at for attempt in core.attempts(lost.deploy.id))
    assert "gone" not in listed(core)


def test_what_is_taken_over_keeps_the_version_it_began_with(core: Core, lost: Running):
    core.set(lost.deploy.id, workflow_version="0.0.9")
    core.worker("w3")
    core.set_worker("w2", version="0.0.9")
    [found] = ask(core)["workflows"]
    assert (found["resumable"], found["workflow_version"]) == (True, "0.0.9")
    assert engine_version(core, lost.deploy.id) == "0.0.9"


def test_a_deploy_whose_version_nobody_runs_stays(core: Core, lost: Running):
    core.set(lost.deploy.id, workflow_version="0.0.9")
    [found] = ask(core)["workflows"]
    assert (found["resumable"], found["workflow_version"]) == (False, "0.0.9")
    assert "no live worker of pool default runs workflow version 0.0.9" in found["why"]
    row = core.deploy(lost.deploy.id)
    assert (row.state, row.executor, row.dispatch) == ("PENDING", "w1", 1)
    assert listed(core)["w1"]["pending"] == {"0.0.9": 1}


@pytest.mark.postgres
def test_a_row_somebody_holds_is_the_next_rounds(postgres_core: Core):
    """R14: a stopped worker's lock on one deploy keeps no other from being taken over."""
    core = postgres_core
    first = Running(core)
    second = core.submit("mail", "production")
    for deploy in (first.deploy, Running.begin(first, second)):
        assert first.hand_out(first.errand(deploy=deploy)).refusal is None
    core.worker("w2")
    lose(core)
    with core.store.write() as holder:
        holder.connection.exec_driver_sql(
            f"SELECT 1 FROM manent.deploys WHERE id = '{second}' FOR UPDATE"  # noqa: S608 - names of ours
        )
        answer = ask(core)
    found = {row["id"]: row for row in answer["workflows"]}
    assert (found[first.deploy.id]["resumable"], found[second]["resumable"]) == (True, False)
    assert found[second]["why"] == recover.BUSY
    # What was at work in it counts as ended with it, not before.
    assert all(attempt.ended_at for attempt in core.attempts(first.deploy.id))
    assert [attempt.ended_at for attempt in core.attempts(second)] == [None]
    assert [finding.deploy.id for finding in core.reconciler().round()] == [second]


def test_the_registry_says_what_an_operator_needs(core: Core):
    running = Running(core)
    running.hand_out(running.errand())
    row = listed(core)["w1"]
    assert (row["registered"], row["alive"], row["pending"]) == (True, True, {"0.1.0": 1})
    assert row["oldest_step_at"] is not None
    assert (row["version"], row["recovered_by"], row["pools"]) == ("0.1.0", None, ["default"])


def test_only_a_lost_and_empty_worker_is_forgotten(core: Core, lost: Running):
    for executor, code in (("w2", "executor_alive"), ("w1", "executor_pending")):
        with pytest.raises(Conflict) as refused:
            executors.forget(core.desk, executor, caller=ADMIN)
        assert refused.value.code == code
    ask(core)
    assert executors.forget(core.desk, "w1", caller=ADMIN) == {"id": "w1", "forgotten": True}
    assert "w1" not in listed(core)
    with pytest.raises(NotFound):
        executors.forget(core.desk, "w1", caller=ADMIN)


def test_a_lost_worker_whose_hook_may_live_is_not_forgotten(core: Core, lost: Running):
    """Its deploy was given up: the next one there waits for an attempt of a worker with a name."""
    core.set(lost.deploy.id, state="CANCELLED", executor=None, incarnation=None)
    with pytest.raises(Conflict) as refused:
        executors.forget(core.desk, "w1", caller=ADMIN)
    assert refused.value.code == "executor_pending"
    assert lost.deploy.id in refused.value.detail


def test_what_left_long_ago_leaves_the_registry(core: Core, lost: Running):
    core.worker("w3")
    core.set_worker("w3", heartbeat_at=long_ago(), stopped_at=long_ago())
    core.worker("w4")
    core.set_worker("w4", heartbeat_at=long_ago())
    core.set_worker("w1", heartbeat_at=long_ago(), stopped_at=long_ago())
    assert executors.forget_old(core.desk) == ["w3"]
    assert sorted(listed(core)) == ["w1", "w2", "w4"]
