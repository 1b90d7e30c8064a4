"""DORA figures out of rows: what ended, whose it is, and how much of the history is left."""

from datetime import date
from typing import Any

import pytest

from manent_server.domain.access import Caller, Grant
from manent_server.domain.deploy import Outcome
from manent_server.domain.errors import Invalid, NotFound
from manent_server.retention import prune as pruning
from manent_server.usecases import dora
from manent_server.usecases.requests import DoraRequest, PruneRequest
from tests.integration.core.pruning import DAY, aged, bad, good, old_good, pruned
from tests.integration.core.running import Running
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
    """By when the last deploy that is gone had ended: no setting and no number is asked."""
    old_good(core, "1", 120)
    aged(core, bad(core, "2"), 110)
    old_good(core, "3", 100)
    old_good(core, "4", 20)
    day = (core.at() - 130 * DAY).date()
    assert only(core, first=day)["coverage"] == {"complete": True, "since": day.isoformat()}
    assert pruned(core)["deploys"] == 1
    found = only(core, first=day)
    assert found["deploys"] == 3
    since = (core.at() - 109 * DAY).date()
    assert found["coverage"] == {"complete": False, "since": since.isoformat()}
    assert only(core, first=since)["coverage"]["complete"]


def test_a_deploy_that_ended_long_after_it_was_asked_for_leaves_its_hole(core: Core) -> None:
    """Its neighbours by number were asked for and ended before the days that are counted."""
    old_good(core, "1", 120)
    late = aged(core, bad(core, "2"), 95)
    core.set(late, requested_at=core.at() - 119 * DAY)
    aged(core, good(core, "3"), 118)
    assert pruned(core)["deploys"] == 1
    assert not only(core, first=(core.at() - 118 * DAY).date())["coverage"]["complete"]


def test_a_later_batch_moves_the_hole_where_its_deploys_ended_later(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "_SMALLEST", 1)
    monkeypatch.setattr(pruning, "_LARGEST", 1)
    old_good(core, "1", 120)
    late = aged(core, bad(core, "2"), 95)
    core.set(late, requested_at=core.at() - 119 * DAY)
    for days in (110, 100, 98):
        aged(core, bad(core, "3"), days)
    aged(core, good(core, "4"), 93)
    assert pruned(core)["deploys"] == 4
    assert not only(core, first=(core.at() - 96 * DAY).date())["coverage"]["complete"]
    assert only(core, first=(core.at() - 94 * DAY).date())["coverage"]["complete"]


def test_a_hole_reaches_to_the_last_end_and_is_made_by_what_counts_alone(core: Core) -> None:
    """Of several that go at once the one that was asked for first may have ended last."""
    aged(core, bad(core, "1"), 95)
    for days in range(100, 120):
        aged(core, bad(core, "2"), days)
    dropped = aged(core, bad(core, "4"), 92)
    core.set(dropped, state="CANCELLED", outcome="cancelled")
    assert pruned(core)["deploys"] == 22
    found = only(core, first=(core.at() - 130 * DAY).date())["coverage"]
    assert found["since"] == (core.at() - 94 * DAY).date().isoformat()


def test_what_is_gone_as_a_whole_is_told_too(core: Core) -> None:
    """Also where the tier has another environment, of which everything is there."""
    aged(core, bad(core, "1"), 100)
    aged(core, bad(core, "1", environment="manual"), 10)
    aged(core, bad(core, "1", application="mail"), 100)
    day = (core.at() - 110 * DAY).date()
    pruned(core)
    mail, shop = asked(core, first=day)["items"]
    assert (mail["application"], mail["deploys"], mail["change_failure_rate"]) == ("mail", 0, None)
    assert not mail["coverage"]["complete"]
    assert (shop["deploys"], shop["environments"]) == (1, ["manual"])
    assert not shop["coverage"]["complete"]
    assert only(core, first=day, environment="manual")["coverage"]["complete"]
    seen = core.desk.seen_by(Caller("dev", (Grant("viewer", ("shop",), ("*",)),), "person"))
    found = dora.figures(seen, DoraRequest(first=day))
    assert [item["application"] for item in found["items"]] == ["shop"]


def test_a_redeploy_of_what_was_there_stays_one_when_its_predecessor_is_pruned(core: Core) -> None:
    """B148, and a prune must change no figure of the days that are left."""
    old_good(core, "1", 120)
    again = good(core, "1")
    past = {"web": {"version": "1"}}
    core.set(again, prepared={"past": past})
    aged(core, again, 10)
    assert asked(core)["items"] == []
    assert pruned(core, PruneRequest(max_age=90 * DAY, keep_releases=1))["deploys"] == 1
    (row,) = core.rows("deploys")
    assert (row["id"], row["replaces"]) == (again, None)
    assert asked(core)["items"] == []


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


@pytest.mark.parametrize(
    "days",
    [
        {"last": date.max},
        {"first": date.min, "last": date.min, "timezone": "Asia/Tokyo"},
        {"first": date.max, "last": date.max, "timezone": "America/New_York"},
    ],
)
def test_days_at_the_end_of_the_calendar_are_refused(core: Core, days: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="no days that can be counted"):
        asked(core, **days)


def test_without_deploys_there_are_no_figures(core: Core) -> None:
    found = asked(core)
    assert (found["items"], found["days"]) == ([], 30)
