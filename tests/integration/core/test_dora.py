"""DORA figures out of rows: what ended, whose it is, and how much of the history is left."""

from datetime import timedelta
from typing import Any

import pytest

from manent_server.domain.access import Caller, Grant
from manent_server.domain.deploy import Outcome
from manent_server.domain.errors import Invalid, NotFound
from manent_server.usecases import dora
from manent_server.usecases.requests import DoraRequest
from tests.integration.core.running import Running
from tests.integration.core.test_prune import DAY, aged, bad, good, old_good, pruned
from tests.rig.core import Core


def asked(core: Core, **more: Any) -> dict[str, Any]:
    return dora.figures(core.desk, DoraRequest(**more))


def only(core: Core, **more: Any) -> dict[str, Any]:
    (found,) = asked(core, **more)["items"]
    assert isinstance(found, dict)
    return found


def rolled_back(core: Core, version: str) -> str:
    running = Running(core, version=version)
    running.perform("deploy:web")
    running.close(Outcome.ROLLED_BACK)
    return running.deploy.id


def test_figures_of_what_ended(core: Core) -> None:
    """B148"""
    first = old_good(core, "1", 9)
    core.set(first, changes=[
        {"id": "a", "author": "ann", "at": (core.at() - 10 * DAY).isoformat()},
        {"id": "b", "author": "ann", "at": core.at().isoformat()},
    ])  # fmt: skip
    aged(core, rolled_back(core, "2"), 7)
    aged(core, bad(core, "3"), 6)
    aged(core, good(core, "3"), 5.5)
    again = good(core, "3")
    aged(core, again, 4)
    aged(core, bad(core, "9", environment="production"), 3)
    found = only(core, environment="staging")
    assert (found["application"], found["tier"]) == ("shop", "staging")
    assert (found["deploys"], found["successful"], found["failed"]) == (4, 2, 2)
    assert found["change_failure_rate"] == 0.5
    assert found["frequency"]["per_week"] == pytest.approx(2 / 30 * 7)
    restore, lead = found["time_to_restore"], found["lead_time"]
    assert (restore["count"], restore["unrestored"]) == (2, 0)
    assert restore["median_seconds"] > 0
    assert (lead["count"], lead["negative"], lead["unexplained"]) == (1, 1, 1)
    assert lead["median_seconds"] == pytest.approx(86400, abs=60)
    assert found["coverage"]["complete"]
    tiers = {item["tier"] for item in asked(core)["items"]}
    assert tiers == {"staging", "production"}
    assert [item["tier"] for item in asked(core, tier="production")["items"]] == ["production"]


def test_what_was_pruned_is_said_to_be_missing(core: Core) -> None:
    """Numbers without a gap tell: no setting and no record of a prune is asked."""
    old_good(core, "1", 120)
    aged(core, bad(core, "2"), 110)
    old_good(core, "3", 100)
    old_good(core, "4", 20)
    day = (core.at() - 130 * DAY).date()
    assert only(core, first=day)["coverage"]["complete"]
    assert pruned(core)["deploys"] == 1
    found = only(core, first=day)
    assert found["deploys"] == 3
    # From the deploy after the missing one on.
    since = ((core.at() - 100 * DAY - timedelta(minutes=1)) + DAY).date()
    assert found["coverage"] == {"complete": False, "since": since.isoformat()}
    later = (core.at() - 50 * DAY).date()
    assert only(core, first=later)["coverage"]["complete"]


def test_nobody_learns_of_what_it_does_not_see(core: Core) -> None:
    aged(core, good(core, "1"), 1)
    aged(core, good(core, "2", application="mail"), 1)
    seen = core.desk.seen_by(Caller("dev", (Grant("viewer", ("mail",), ("*",)),), "person"))
    found = dora.figures(seen, DoraRequest())
    assert [item["application"] for item in found["items"]] == ["mail"]
    with pytest.raises(NotFound):
        dora.figures(seen, DoraRequest(application="shop"))


def test_what_cannot_be_counted_is_refused(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Invalid, match="timezone"):
        asked(core, timezone="Europe/Roma")
    aged(core, good(core, "1"), 2)
    aged(core, good(core, "2"), 1)
    monkeypatch.setattr(dora, "MOST", 1)
    with pytest.raises(Invalid, match="more than 1 deploys"):
        asked(core)


def test_without_deploys_there_are_no_figures(core: Core) -> None:
    found = asked(core)
    assert (found["items"], found["days"]) == ([], 30)
