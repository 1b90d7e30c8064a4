"""Retention: what a prune deletes, what it keeps and why, and what it never breaks."""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.domain.errors import Conflict, Invalid, NotAllowed
from manent_server.domain.marks import Sort
from manent_server.engine import inspection
from manent_server.retention import prune as pruning
from manent_server.store import records
from manent_server.usecases import mark, roll_back, schedule
from manent_server.usecases.requests import (
    IdempotencyKey,
    MarkRequest,
    PruneRequest,
    RollbackRequest,
    ScheduleRequest,
)
from manent_server.usecases.tenure import Tenure
from tests.integration.core.pruning import DAY, OLD, dry, good, left, old_bad, old_good, pruned
from tests.rig.core import ADMIN, Core


def test_the_last_success_stays_however_old_it_is(core: Core) -> None:
    """B93: keep_releases 1, the last success is 100 days old, then 20 failures."""
    live = old_good(core, "1", 100)
    failures = [old_bad(core, f"f{n}", 99 - n / 10) for n in range(20)]
    found = pruned(core, PruneRequest(max_age=90 * DAY, keep_releases=1))
    assert (found["deploys"], found["kept"]) == (20, {"current": 1})
    assert left(core) == {live}
    assert not left(core) & set(failures)
    (row,) = core.rows("inventory")
    assert (row["deploy"], row["version"]) == (live, "1")


def test_a_dry_run_says_what_a_run_does(core: Core) -> None:
    """B94: 15 successes, 6 of them young; 20 failures, 8 young; elsewhere one old success."""
    elsewhere = old_good(core, "1", 400, environment="manual")
    goods = [
        old_good(core, f"v{n}", days)
        for n, days in enumerate([*range(200, 191, -1), *range(60, 54, -1)])
    ]
    bads = [
        old_bad(core, f"f{n}", days)
        for n, days in enumerate([*range(190, 178, -1), *range(50, 42, -1)])
    ]
    told = pruned(core, dry(OLD))
    assert (told["deploys"], told["workflows"], told["dry_run"]) == (17, 17, True)
    assert len(left(core)) == 36
    done = pruned(core)
    assert {**told, "dry_run": False} == {**done, "explained": told["explained"]}
    assert left(core) == {elsewhere, *goods[5:], *bads[12:]}
    assert done["kept"] == {"current": 1, "releases": 4}
    assert pruned(core)["deploys"] == 0


def approved(core: Core, deploy: str, *rules: str) -> None:
    """People have agreed to a deploy, by each rule once."""
    with core.store.write() as tx:
        at = tx.now()
        for position, rule in enumerate(rules):
            one = {"id": f"{deploy}-{rule}", "deploy": deploy, "application": "shop",
                   "environment": "staging", "rule": rule, "position": position, "body": {},
                   "digest": "d", "state": "approved", "asked_at": at}  # fmt: skip
            vote = {"id": f"v-{one['id']}", "approval": one["id"], "identity": "bob",
                    "principal": "bob", "groups": [], "session": "", "decision": "approve",
                    "channel": "api", "digest": "d", "at": at}  # fmt: skip
            tx.connection.execute(tx.tables.approvals.insert().values(one))
            tx.connection.execute(tx.tables.votes.insert().values(vote))


def test_approvals_stay_with_their_releases_and_go_with_the_rest(core: Core) -> None:
    """B94: the second round."""
    gone = [old_good(core, "v1", 120), old_bad(core, "v2", 119)]
    kept = [old_good(core, f"v{n}", 120 - n) for n in (3, 4)]
    for deploy in (*gone, *kept):
        approved(core, deploy, "release", "security")
    request = PruneRequest(max_age=90 * DAY, keep_releases=1)
    told = pruned(core, dry(request))
    assert (told["deploys"], told["approvals"], told["workflows"]) == (2, 4, 6)
    done = pruned(core, request)
    assert (done["deploys"], done["approvals"], done["workflows"]) == (2, 4, 6)
    assert {row["deploy"] for row in core.rows("approvals")} == set(kept)
    assert len(core.rows("votes")) == 4


def test_instants_at_which_nothing_was_deployed_go_by_their_own_age(core: Core) -> None:
    asked = ScheduleRequest("nightly", "shop", environment="staging", cron="0 3 * * *", version="1")
    schedule.schedule(core.desk, asked, caller=ADMIN)
    (made,) = core.rows("schedules")
    with core.store.write() as tx:
        for days in (100, 95, 80, 1):
            at = tx.now() - days * DAY
            run = {"schedule": made["id"], "at": at, "result": "missed", "settled_at": at}
            tx.connection.execute(tx.tables.schedule_runs.insert().values(run))
    told = pruned(core, dry(OLD))
    done = pruned(core)
    assert told["schedule_runs"] == done["schedule_runs"] == done["workflows"] == 2
    assert len(core.rows("schedule_runs")) == 2


def test_everything_of_a_deploy_goes_with_it(core: Core) -> None:
    gone, _, stays = old_good(core, "1", 100), old_good(core, "2", 95), good(core, "3")
    with core.store.write() as tx:
        for deploy in (gone, stays):
            tx.connection.execute(tx.tables.logs.insert().values(_line(core, deploy)))
    copies = {f"{deploy}.1" for deploy in (gone, stays)}
    assert copies <= inspection.deliveries(core.dispatcher.client, list(copies)).keys()
    pruned(core, PruneRequest(max_age=90 * DAY, keep_releases=1))
    for table in ("steps", "attempts", "logs"):
        owners = {row["deploy"] for row in core.rows(table)}
        assert stays in owners, table
        assert gone not in owners, table
    assert set(inspection.deliveries(core.dispatcher.client, list(copies))) == {f"{stays}.1"}
    assert any(row["deploy"] == gone for row in core.rows("audit"))


def _line(core: Core, deploy: str) -> dict[str, Any]:
    return {
        "deploy": deploy,
        "sequence": 1000,
        "lines": 1,
        "size": 2,
        "at": core.at(),
        "stream": "stdout",
        "text": "hi",
    }


def test_what_a_kept_deploy_was_made_of_stays(core: Core) -> None:
    """And what is made of nothing that stays goes, in one run."""
    first = old_good(core, "1", 120)
    for n in range(3):
        old_good(core, f"x{n}", 119 - n)
    back = str(
        roll_back.roll_back(
            core.desk, RollbackRequest("shop", "staging", to="1", reason="r"), caller=ADMIN
        )["id"]
    )
    told = pruned(core, dry(PruneRequest(max_age=90 * DAY, keep_releases=1)))
    kept = {row["id"]: row["reason"] for row in told["explained"]}
    assert kept[first] == "referred"
    assert told["kept"]["live"] == 1
    pruned(core, PruneRequest(max_age=90 * DAY, keep_releases=1))
    assert {first, back} <= left(core)
    assert core.deploy(back).rollback_to == first


def test_a_chain_of_old_ones_goes_whole(core: Core) -> None:
    first = old_good(core, "1", 120)
    again = old_good(core, "1", 110)
    core.set(again, rerun_of=first, root=first)
    old_good(core, "2", 100)
    request = PruneRequest(max_age=90 * DAY, keep_releases=1)
    told = pruned(core, dry(request))
    # What a rollback would bring stays; nothing refers to the one before.
    assert told["kept"] == {"current": 1, "previous": 1, "referred": 1}
    core.set(again, rerun_of=None)
    assert pruned(core, request)["deploys"] == 1
    assert first not in left(core)


def test_old_ones_that_refer_to_each_other_go_in_one_run(core: Core) -> None:
    first = old_bad(core, "1", 120)
    again = old_bad(core, "1", 110)
    core.set(again, rerun_of=first, root=first)
    good(core, "2")
    request = PruneRequest(max_age=90 * DAY, keep_releases=1)
    assert pruned(core, dry(request))["deploys"] == 2
    assert pruned(core, request)["deploys"] == 2


def test_what_a_version_was_given_up_by_stays_while_it_can_be_named(core: Core) -> None:
    """A version that was rolled back from stays no target when its failure has grown old."""
    for n in range(3):
        old_good(core, f"v{n}", 200 - n)
    proof = old_bad(core, "v1", 150)
    core.set(proof, outcome="rolled_back")
    told = pruned(core, dry(OLD))
    assert told["kept"]["given_up"] == 1
    pruned(core)
    request = RollbackRequest("shop", "staging", to="v1", reason="r")
    with pytest.raises(Conflict, match="was rolled back from"):
        roll_back.roll_back(core.desk, request, caller=ADMIN)


def test_what_a_mark_in_force_came_of_stays(core: Core) -> None:
    failed = old_bad(core, "1", 100)
    good(core, "2")
    request = MarkRequest(Sort.LOCK, "broken", "shop", environment="staging")
    mark.put(core.desk, request, caller=ADMIN)
    with core.store.write() as tx:
        tx.connection.execute(sa.update(tx.tables.marks).values(deploy=failed))
    assert pruned(core)["kept"] == {"marked": 1}
    with core.store.write() as tx:
        tx.connection.execute(sa.update(tx.tables.marks).values(lifted_at=tx.now()))
    assert pruned(core)["deploys"] == 1


def test_what_the_engine_has_not_finished_with_stays(core: Core) -> None:
    deploy = old_bad(core, "1", 100)
    core.set_delivery(deploy, "ENQUEUED")
    assert pruned(core)["kept"] == {"unfinished": 1}


def test_nothing_says_how_old_it_may_become(core: Core) -> None:
    with pytest.raises(Invalid) as caught:
        pruned(core, PruneRequest())
    assert caught.value.code == "retention_off"


def test_one_prune_at_a_time_and_only_by_an_administrator(core: Core) -> None:
    tenure = Tenure(core.store, pruning.LEASE, "another", lasts=timedelta(minutes=1))
    assert tenure.take()
    with pytest.raises(Conflict) as caught:
        pruned(core)
    assert caught.value.code == "prune_running"
    assert pruned(core, dry(OLD))["deploys"] == 0
    tenure.give_up()
    pruned(core)
    with pytest.raises(NotAllowed):
        pruning.prune(core.desk, OLD, caller=Caller("eve", access.everywhere("viewer")))


def test_a_survey_that_takes_longer_than_the_lease_keeps_it(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of places are looked at before anything is written."""
    old_bad(core, "1", 100)
    good(core, "2")
    monkeypatch.setattr(pruning, "_LASTS", timedelta(seconds=1))
    monkeypatch.setattr(pruning, "_PULSE", 0.01)
    survey = pruning.survey

    def slowly(*words: Any, pulse: Callable[[], None], **more: Any) -> Any:
        for _ in range(15):
            time.sleep(0.1)
            pulse()
        return survey(*words, pulse=pulse, **more)

    monkeypatch.setattr(pruning, "survey", slowly)
    assert pruned(core)["deploys"] == 1


def test_the_same_key_prunes_once(core: Core) -> None:
    old_bad(core, "1", 100)
    good(core, "2")
    key = IdempotencyKey("k", "/admin/prune", "d")
    first = pruned(core, key=key)
    old_bad(core, "3", 100)
    assert pruned(core, key=key) == first
    assert pruned(core)["deploys"] == 1


def batches(core: Core) -> list[int]:
    """How many deploys each batch on record has deleted."""
    found = [row for row in core.rows("audit") if row["action"] == pruning.BATCH]
    assert {row["actor"] for row in found} <= {ADMIN.name}
    return [row["detail"]["deploys"] for row in found]


def test_what_is_deleted_is_on_record_in_the_same_transaction(
    core: Core, monkeypatch: pytest.MonkeyPatch
):
    """A prune that dies at any instant has deleted nothing that is not on record."""
    old_bad(core, "1", 100)
    good(core, "2")

    def die(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(records, "write_audit", die)
        with pytest.raises(ZeroDivisionError):
            pruned(core)
    assert (len(left(core)), batches(core)) == (2, [])
    pruned(core)
    assert (len(left(core)), batches(core)) == (1, [1])
    (row,) = [row for row in core.rows("audit") if row["action"] == pruning.BATCH]
    assert row["detail"]["max_age"] == "2160h"
    assert not [row for row in core.rows("events") if row["type"] == pruning.BATCH]
    pruned(core)
    assert batches(core) == [1]


def test_a_prune_that_is_told_to_stop_goes_on_next_time(core: Core) -> None:
    """B97: a pruner that ends half-way has deleted whole deploys; the next one does the rest."""
    for n in range(6):
        old_bad(core, f"f{n}", 100 + n)
    good(core, "1")
    policy = pruning.Policy(90 * DAY, 10)
    pruner = pruning.Pruner(core.desk, policy, caller=ADMIN, stop=lambda: len(left(core)) < 6)
    pruner._size = 2
    with pytest.raises(pruning.Unavailable):
        pruner.run()
    assert len(left(core)) == 5
    assert batches(core) == [2]
    assert pruned(core)["deploys"] == 4
    assert sum(batches(core)) == 6


def test_a_rollback_asked_for_while_its_target_is_pruned_is_never_left_hanging(
    postgres_core: Core,
) -> None:
    """Whoever comes first wins; the other finds it so, and nothing refers to what is gone."""
    core = postgres_core
    first = old_good(core, "1", 200)
    old_good(core, "2", 199)
    good(core, "3")
    with core.store.write() as tx:
        tx.connection.execute(
            sa.update(tx.tables.deploys)
            .where(tx.tables.deploys.c.version == "2")
            .values(rollback_to=first)
        )
        gone: list[Sequence[str]] = []
        thread = threading.Thread(target=lambda: gone.append(_delete(core, [first])), daemon=True)
        thread.start()
        thread.join(0.3)
    thread.join(30)
    assert gone == [()]
    assert first in left(core)


def _delete(core: Core, ids: list[str]) -> Sequence[str]:
    with core.store.write() as tx:
        return pruning.retention.delete(tx, ids, before=core.at(), holes={}).deploys
