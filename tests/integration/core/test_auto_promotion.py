"""Automation that takes up what qualifies, and never undoes what people decided."""

from datetime import timedelta
from typing import Any

import pytest

from manent_server.domain.approval import Requester, dump_requester
from manent_server.domain.deploy import Outcome
from manent_server.domain.errors import NotAllowed
from manent_server.domain.marks import Sort
from manent_server.domain.promotion import Rule
from manent_server.domain.rules import Rules
from manent_server.settings.values import ArtifactSource
from manent_server.usecases import cancel, explain, inspect, mark, roll_back
from manent_server.usecases.auto_promote import AutoPromotion
from manent_server.usecases.requests import CancelRequest, MarkRequest, RollbackRequest
from tests.integration.core.approving import ANN, BOB, ask, resolve, say
from tests.integration.core.running import Running, good
from tests.rig.core import ADMIN, Core, long_ago

ORIGIN = "promotion"


def automatic(core: Core, **more: Any) -> AutoPromotion:
    rules = Rules(promotion=Rule(("staging",), **more), auto_promote=True)
    core.change_environment("production", rules=rules)
    core.change_environment("staging", concurrency=3)
    source = ArtifactSource(url="file:///{version}", sha256=None)
    core.change_placement("shop", "production", artifact=source)
    return AutoPromotion(core.desk)


def taken_up(core: Core) -> list[str]:
    rows = [row for row in core.rows("deploys") if row["origin"] == "promotion"]
    return [row["version"] for row in sorted(rows, key=lambda row: row["number"])]


def finish(core: Core, outcome: Outcome = Outcome.DEPLOYED) -> None:
    """Run what is dispatched in production to its end."""
    running = Running.__new__(Running)
    running.core, running.worker, running.handed = core, core.worker(), {}
    core.admit("production")
    (deploy,) = core.slots("production")
    running.deploy = running.begin(deploy)
    if outcome == Outcome.DEPLOYED:
        acting = "rollback" if running.deploy.kind == "rollback" else "deploy"
        running.perform(f"{acting}:web")
        running.perform("verify:web")
        core.set(deploy, replaces=_last_good(core))
    running.close(outcome)


def _last_good(core: Core) -> str | None:
    rows = [
        row
        for row in core.rows("deploys")
        if (row["environment"], row["state"]) == ("production", "SUCCESS")
    ]
    return max(rows, key=lambda row: row["epoch"])["id"] if rows else None


def test_what_qualifies_is_taken_up_once(core: Core):
    core.worker()
    auto = automatic(core)
    auto.round()
    source = good(core, "1")
    auto.round()
    (row,) = [row for row in core.rows("deploys") if row["environment"] == "production"]
    assert (row["version"], row["sha256"], row["promoted_from"]) == ("1", "1" * 64, source)
    assert (row["origin"], row["requested_by"]) == ("promotion", "promotion")
    assert "deploy.requested" in [d["action"] for d in core.rows("audit") if d["actor"] == ORIGIN]
    AutoPromotion(core.desk).round()
    finish(core, Outcome.FAILED)
    AutoPromotion(core.desk).round()
    assert taken_up(core) == ["1"]
    good(core, "2")
    auto.round()
    assert taken_up(core) == ["1", "2"]


def test_whoever_brought_it_where_it_was_proven_approves_it_nowhere_else(core: Core):
    """Else one person alone would bring a version to production, by way of automation."""
    core.worker()
    auto = automatic(core)
    ask(core, environment="production")
    core.set(good(core, "1"), requester=dump_requester(Requester("ann-laptop", "ann")))
    auto.round()
    (row,) = [row for row in core.rows("deploys") if row["environment"] == "production"]
    resolve(core, lambda _, sha256: sha256 or "")
    with pytest.raises(NotAllowed, match="ann is who the program that asked for it acts for"):
        say(core, row["id"], ANN)
    assert say(core, row["id"], BOB)["message"] == "recorded"


def test_it_waits_for_the_soak_and_for_whatever_holds_it(core: Core):
    auto = automatic(core, soak=timedelta(hours=1))
    first = good(core, "1")
    auto.round()
    assert taken_up(core) == []
    hold = mark.put(core.desk, MarkRequest(Sort.HOLD, "quiet", "shop", "production"), caller=ADMIN)
    core.set(first, ended_at=long_ago())
    AutoPromotion(core.desk).round()
    assert taken_up(core) == []
    auto.round()
    mark.lift(core.desk, Sort.HOLD, hold["id"], caller=ADMIN)
    auto.round()
    assert taken_up(core) == ["1"]


def test_it_never_undoes_a_rollback(core: Core):
    auto = automatic(core)
    for version in ("1", "2"):
        good(core, version)
        auto.round()
        finish(core)
    request = RollbackRequest("shop", "production", reason="bad")
    roll_back.roll_back(core.desk, request, caller=ADMIN)
    finish(core)
    good(core, "2")
    for one in mark.standing(core.desk, Sort.HOLD)["items"]:
        mark.lift(core.desk, Sort.HOLD, one["id"], caller=ADMIN)
    AutoPromotion(core.desk).round()
    assert taken_up(core) == ["1", "2"]
    good(core, "3")
    AutoPromotion(core.desk).round()
    assert taken_up(core) == ["1", "2", "3"]


def test_it_never_goes_behind_what_a_person_deployed_since(core: Core):
    auto = automatic(core)
    core.change_environment("production", rules=Rules())
    good(core, "1")
    core.submit("shop", "production", "hotfix")
    finish(core)
    auto = automatic(core)
    auto.round()
    assert taken_up(core) == []
    good(core, "2")
    auto.round()
    assert taken_up(core) == ["2"]


def test_a_promotion_that_is_cancelled_ends_itself_and_nothing_else(core: Core):
    """B68: it has no parent and no child; who cancelled it is said, and it does not come back."""
    core.worker()
    auto = automatic(core)
    source = good(core, version="1")
    auto.round()
    (promoted,) = core.slots("production")
    cancel.cancel(core.desk, promoted, CancelRequest(reason="wrong day"), caller=ADMIN)
    shown = inspect.deploy(core.desk, promoted)
    assert (shown["state"], shown["cancel"]["by"]) == ("CANCELLED", ADMIN.name)
    assert shown["promoted_from"] == source
    assert core.deploy(source).state == "SUCCESS"
    auto.round()
    assert core.slots("production") == []
    assert taken_up(core) == ["1"]


def test_of_several_places_a_lock_holds_back_its_own_alone(core: Core):
    """B20: each request has its own answer; one that meets a lock waits and says why."""
    core.worker()
    lock = MarkRequest(Sort.LOCK, "audit", environment="production")
    mark.put(core.desk, lock, caller=ADMIN)
    places = ("staging", "production", "manual")
    shown = [inspect.deploy(core.desk, core.submit(environment=place)) for place in places]
    assert [one["phase"] for one in shown] == ["dispatched", "locked", "dispatched"]
    (gate,) = explain.explain(core.desk, shown[1]["id"])["gates"]
    assert "audit" in gate["detail"]
