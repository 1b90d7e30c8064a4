"""DORA: what counts as a deployment, as its failure, and as the end of that."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from manent_server.domain import dora
from manent_server.domain.dora import Ended, Figures, Window
from manent_server.domain.errors import Invalid

ROME = ZoneInfo("Europe/Rome")
MARCH = Window(date(2027, 3, 1), date(2027, 3, 30), ROME)
MINUTE = timedelta(minutes=1)


def at(day: int, minutes: float = 0) -> datetime:
    return datetime(2027, 3, day, 10, tzinfo=UTC) + minutes * MINUTE


def deploy(version: str, ended_at: datetime, **more: object) -> Ended:
    known = {
        "application": "shop", "environment": "prod", "tier": "production", "kind": "deploy",
        "version": version, "replaced": None, "state": "SUCCESS", "outcome": "deployed",
        "ended_at": ended_at,
    }  # fmt: skip
    return Ended(**known | more)  # type: ignore[arg-type]


def failed(version: str, ended_at: datetime, outcome: str = "failed", **more: object) -> Ended:
    return deploy(version, ended_at, state="ERROR", outcome=outcome, **more)


def rollback(version: str, ended_at: datetime, **more: object) -> Ended:
    return deploy(version, ended_at, kind="rollback", **more)


def only(rows: list[Ended], window: Window = MARCH) -> Figures:
    (found,) = dora.figures(rows, window)
    return found


def march() -> list[Ended]:
    """Twelve deploys of a month, three of which failed, and what is none of them."""
    good = [deploy(f"v{n}", at(n)) for n in (1, 2, 3, 5, 6, 7, 8, 11, 12)]
    return [
        *good,
        failed("v4", at(4, 40), "rolled_back", failed_at=at(4)),
        rollback("v6", at(7, 120)),
        failed("v9", at(9), failed_at=at(9)),
        deploy("v10", at(9, 90)),
        deploy("v12", at(13), replaced="v12"),
        deploy("v13", datetime(2027, 3, 31, 22, 30, tzinfo=UTC)),
    ]


def test_what_counts_counts_once() -> None:
    """B148: rollbacks and redeploys of what is there are no deployments; days are those of Rome."""
    found = only(march())
    assert (found.deploys, found.successful, found.failed) == (12, 10, 3)
    assert found.failure_rate == 0.25
    assert round(found.successful / MARCH.days * 7, 2) == 2.33
    assert found.restore.count == 3
    assert found.restore.median == 90 * 60
    assert found.restore.mean == pytest.approx(250 / 3 * 60)
    assert [(month.month, month.deploys) for month in found.months] == [("2027-03", 12)]


def test_a_day_is_that_of_the_zone() -> None:
    """B148: half past ten in the evening of the last of March in UTC is April in Rome."""
    longer = Window(date(2027, 3, 31), date(2027, 4, 1), ROME)
    assert [month.month for month in only(march(), longer).months] == ["2027-04"]
    assert dora.figures(march(), Window(date(2027, 3, 31), date(2027, 3, 31), ROME)) == []
    (utc,) = dora.figures(march(), Window(date(2027, 3, 31), date(2027, 3, 31), ZoneInfo("UTC")))
    assert utc.deploys == 1


def test_a_deployment_that_fails_twice_is_one_that_failed() -> None:
    """B146: 23 deployments, four of which failed in six ways: 17.4 %."""
    rows = [deploy(f"{n}", at(n)) for n in range(1, 20)]
    rows += [failed(f"f{n}", at(20 + n), "rollback_failed") for n in range(4)]
    rows += [rollback("19", at(23, n), state="ERROR", outcome="failed") for n in (5, 9)]
    found = only(rows)
    assert (found.deploys, found.failed) == (23, 4)
    assert found.failure_rate == pytest.approx(4 / 23)
    assert found.unrestored == 4


def test_no_failure_lasts_less_than_nothing() -> None:
    """The clock of the database may have been set back meanwhile."""
    found = only([failed("v1", at(2), "rolled_back", failed_at=at(2, 5))])
    assert (found.restore.count, found.restore.median) == (1, 0)


def test_a_rollback_that_fails_says_that_the_deployment_had() -> None:
    rows = [
        deploy("1", at(1)),
        deploy("2", at(2)),
        rollback("1", at(2, 10), state="ERROR", outcome="failed"),
        rollback("1", at(2, 30)),
    ]
    found = only(rows)
    assert (found.deploys, found.failed, found.unrestored) == (2, 1, 0)
    assert found.restore.median == 30 * 60


def test_a_rollback_after_a_failure_undoes_no_other_deployment() -> None:
    rows = [deploy("1", at(1)), failed("2", at(2)), rollback("1", at(2, 15))]
    found = only(rows)
    assert (found.deploys, found.failed) == (2, 1)
    assert found.restore.median == 15 * 60


def test_two_steps_back_undo_two() -> None:
    rows = [deploy(f"{n}", at(n)) for n in (1, 2, 3)]
    rows += [rollback("2", at(4)), rollback("1", at(5))]
    assert only(rows).failed == 2


def test_a_rollback_over_several_versions_undoes_the_last_alone() -> None:
    """What lay in between stands no more: the next one to go back from is where it went to."""
    rows = [deploy(f"{n}", at(n)) for n in (1, 2, 3)]
    rows += [rollback("1", at(4)), rollback("0", at(5))]
    found = only(rows)
    assert (found.deploys, found.failed) == (3, 2)
    # The third for a day, the first for four.
    assert found.restore.mean == 2.5 * 24 * 3600


def test_a_rollback_tried_twice_leaves_the_one_before_to_stand() -> None:
    rows = [
        deploy("1", at(1)),
        deploy("2", at(2)),
        rollback("1", at(2, 10), state="ERROR", outcome="failed"),
        rollback("1", at(2, 30)),
        rollback("0", at(3)),
    ]
    assert only(rows).failed == 2


def test_of_what_nothing_is_left_there_are_figures_of_nothing() -> None:
    mail, shop = dora.figures([deploy("1", at(1))], MARCH, [("mail", "production")])
    assert (mail.application, mail.deploys, mail.failure_rate) == ("mail", 0, None)
    assert (shop.application, shop.deploys) == ("shop", 1)


def test_what_another_place_does_ends_no_failure_here() -> None:
    rows = [failed("1", at(1)), deploy("1", at(2), environment="other")]
    found = only(rows)
    assert (found.environments, found.unrestored) == (("other", "prod"), 1)


def test_a_failure_of_the_last_day_is_ended_by_what_comes_after() -> None:
    rows = [failed("1", at(30)), deploy("2", at(31))]
    found = only(rows)
    assert (found.deploys, found.unrestored, found.restore.count) == (1, 0, 1)


def test_a_lead_time_below_zero_is_flagged_and_not_averaged() -> None:
    """B148: a clock that went wrong makes no average better."""
    rows = [
        deploy("1", at(2), changed_at=(at(1), at(2, -60), at(3))),
        deploy("2", at(4)),
        failed("3", at(5), changed_at=(at(1),)),
    ]
    found = only(rows)
    assert (found.lead.count, found.negative, found.unexplained) == (2, 1, 1)
    assert found.lead.median == (24 * 60 + 60) / 2 * 60


def test_tiers_and_applications_are_apart() -> None:
    rows = [deploy("1", at(1)), deploy("1", at(1), tier="staging", environment="stage")]
    rows += [deploy("1", at(1), application="mail")]
    found = dora.figures(rows, MARCH)
    assert [(one.application, one.tier) for one in found] == [
        ("mail", "production"), ("shop", "production"), ("shop", "staging"),
    ]  # fmt: skip


def test_without_a_deployment_there_is_no_rate() -> None:
    assert dora.figures([rollback("1", at(1))], MARCH) == []


def test_thirty_days_that_end_today_in_the_zone() -> None:
    evening = datetime(2027, 3, 30, 23, 0, tzinfo=UTC)
    found = dora.window(None, None, ROME, at=evening)
    assert (found.first, found.last, found.days) == (date(2027, 3, 2), date(2027, 3, 31), 30)
    assert found.end - found.start == timedelta(days=30) - timedelta(hours=1)


@pytest.mark.parametrize(
    ("first", "last"),
    [(date(2027, 3, 2), date(2027, 3, 1)), (date(2025, 3, 1), date(2027, 3, 2))],
)
def test_days_that_cannot_be_counted_are_refused(first: date, last: date) -> None:
    with pytest.raises(Invalid):
        dora.window(first, last, ROME, at=at(1))
