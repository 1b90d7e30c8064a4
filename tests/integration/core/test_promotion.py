"""Promotion: what runs in one environment may go to the next."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.domain.deploy import Outcome
from manent_server.domain.errors import Conflict, Invalid, Refused
from manent_server.domain.promotion import Rule
from manent_server.domain.rules import Rules
from manent_server.settings.values import ArtifactSource
from manent_server.usecases import explain, inspect, promote, roll_back, wake
from manent_server.usecases.requests import PromotionRequest, RollbackRequest
from tests.integration.core.running import BAD, Running, good
from tests.rig.core import ADMIN, Core, long_ago

RULE = Rule(("staging",))
REQUEST = PromotionRequest("shop", "staging", "production")


def bind(core: Core, **more: Any) -> None:
    """A promotion rule for production, whose application has an artifact."""
    core.change_environment("production", rules=Rules(promotion=replace(RULE, **more)))
    source = ArtifactSource(url="file:///{version}", sha256=None)
    core.change_placement("shop", "production", artifact=source)


def ask(core: Core, **more: Any) -> dict[str, Any]:
    return promote.promote(core.desk, replace(REQUEST, **more), caller=ADMIN)


def delete(core: Core, deploy: str) -> None:
    with core.store.write() as tx:
        tx.connection.execute(sa.delete(tx.tables.inventory))
        d = tx.tables.deploys
        tx.connection.execute(sa.delete(d).where(d.c.id == deploy))


def gates_of(refused: Refused) -> list[str]:
    return [gate["gate"] for gate in refused.facts["gates"]]


def test_a_promotion_brings_the_very_digest_and_names_its_source(core: Core):
    core.worker()
    bind(core)
    source = good(core, "1")
    made = ask(core)
    row = core.deploy(made["id"])
    assert (row.version, row.sha256, row.promoted_from) == ("1", "1" * 64, source)
    assert (made["promoted_from"], row.kind, row.origin) == (source, "deploy", "request")
    assert row.phase == "dispatched"


def test_the_source_of_a_promotion_cannot_be_deleted(core: Core):
    bind(core)
    source = good(core, "1")
    ask(core)
    with pytest.raises(sa.exc.IntegrityError):
        delete(core, source)


def test_missing_evidence_is_refused_and_named(core: Core):
    bind(core)
    with pytest.raises(Refused) as caught:
        core.submit("shop", "production", "1")
    refusal = caught.value
    assert (refusal.code, gates_of(refusal)) == ("promotion", ["promotion"])
    assert "runs on 0 of 1 targets in staging" in refusal.detail
    assert refusal.next == "manent deploy shop staging 1"
    assert core.rows("deploys") == []
    with pytest.raises(Conflict, match="known to run in staging"):
        ask(core)


def test_the_rule_binds_a_plain_deploy_and_pins_what_was_proven(core: Core):
    bind(core)
    good(core, "1")
    row = core.deploy(core.submit("shop", "production", "1"))
    assert (row.sha256, row.promoted_from) == ("1" * 64, None)
    with pytest.raises(Refused, match="runs on 0 of 1"):
        core.submit("shop", "production", "1", sha256="0" * 64)
    with pytest.raises(Refused, match="2 is not proven for production"):
        core.submit("shop", "production", "2")
    assert core.deploy(core.submit("mail", "staging", "9")).state == "ENQUEUED"


def test_only_an_override_with_a_reason_passes_the_rule(core: Core):
    bind(core)
    with pytest.raises(Invalid, match="reason"):
        core.submit("shop", "production", "1", override=["promotion"])
    forced = core.submit("shop", "production", "1", override=["promotion"], reason="hotfix")
    assert core.deploy(forced).state == "ENQUEUED"


def test_evidence_that_is_too_young_is_waited_for(core: Core):
    """Soak alone waits: it opens by time, two seconds after its instant at most."""
    core.worker()
    bind(core, soak=timedelta(hours=1))
    good(core, "1")
    made = ask(core)
    assert (made["state"], made["phase"]) == ("DELAYED", "soaking")
    (gate,) = explain.explain(core.desk, made["id"])["gates"]
    assert (gate["gate"], gate["opened_by"]) == ("soak", "time")
    (alarm,) = core.rows("wakes")
    until = alarm["at"] - core.at()
    assert timedelta(minutes=59) < until <= timedelta(hours=1)
    with core.store.write() as tx:
        d, w = tx.tables.deploys, tx.tables.wakes
        mine = d.c.environment == "staging"
        tx.connection.execute(sa.update(d).where(mine).values(ended_at=long_ago()))
        tx.connection.execute(sa.update(w).values(at=long_ago()))
    wake.wake_due(core.desk)
    assert core.deploy(made["id"]).phase == "dispatched"


def test_whoever_may_override_soak_does_not_wait(core: Core):
    bind(core, soak=timedelta(hours=1))
    good(core, "1")
    assert ask(core, override=("soak",), reason="hotfix")["state"] == "ENQUEUED"


def test_old_evidence_is_none_until_a_success_renews_it(core: Core):
    bind(core, max_age=timedelta(hours=1))
    first = good(core, "1")
    core.set(first, ended_at=long_ago())
    with pytest.raises(Refused, match="is older than 1:00:00"):
        ask(core)
    good(core, "1")
    assert ask(core)["state"] == "ENQUEUED"


def since(core: Core, deploy: str) -> Any:
    (gate,) = explain.explain(core.desk, deploy)["gates"]
    return gate["closed_since"]


def test_a_redeploy_of_the_same_is_no_break_and_another_version_is_one(core: Core):
    bind(core, soak=timedelta(hours=1))
    first = good(core, "1")
    made = ask(core)["id"]
    begun = since(core, made)
    assert begun == inspect.deploy(core.desk, first)["ended_at"]
    good(core, "1")
    assert since(core, made) == begun
    good(core, "2")
    last = good(core, "1")
    assert since(core, made) == inspect.deploy(core.desk, last)["ended_at"]


def test_what_is_being_deployed_to_proves_nothing(core: Core):
    bind(core)
    good(core, "1")
    running = Running(core, version="2")
    assert ask(core)["state"] == "ENQUEUED"
    running.hand_out(running.errand())
    with pytest.raises(Refused, match="runs on 0 of 1"):
        ask(core, version="1")


def test_evidence_that_goes_holds_a_waiting_deploy_until_it_is_back(core: Core):
    bind(core, soak=timedelta(hours=1))
    good(core, "1")
    made = ask(core)["id"]
    failed = Running(core, version="2")
    failed.hand_out(failed.errand())
    failed.finish(failed.errand(), BAD)
    core.set(failed.deploy.id, executor=None, incarnation=None)
    assert [one["gate"] for one in explain.explain(core.desk, made)["gates"]] == ["promotion"]
    core.admit("production")
    assert core.deploy(made).phase == "unproven"


def test_a_version_that_runs_in_part_is_promoted_by_name_alone(core: Core):
    bind(core)
    good(core, "1")
    with pytest.raises(Conflict, match="shop 7 does not run in staging"):
        ask(core, version="7")
    with pytest.raises(Invalid, match="promoted to itself"):
        ask(core, to="staging")


def test_the_rule_is_frozen_with_the_order(core: Core):
    bind(core, soak=timedelta(hours=1))
    good(core, "1")
    made = ask(core)["id"]
    core.change_environment("production", rules=Rules())
    core.admit("production")
    assert core.deploy(made).phase == "soaking"
    assert core.deploy(core.submit("shop", "production", "5")).state == "ENQUEUED"


def test_a_rollback_to_a_named_version_is_bound_like_a_deploy(core: Core):
    """B55"""
    bind(core)
    for version in ("1", "2"):
        good(core, version)
        running = Running(core, environment="production", version=version)
        running.close(Outcome.DEPLOYED)
    request = RollbackRequest("shop", "production", reason="bad")
    with pytest.raises(Refused, match="1 is not proven for production"):
        roll_back.roll_back(core.desk, replace(request, to="1"), caller=ADMIN)
