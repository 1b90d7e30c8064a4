"""Gates: one pure function says why a deploy may not run now."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import gates
from manent_server.domain.deploy import Kind, Phase
from manent_server.domain.gates import Asked, ClosedGate, Facts
from manent_server.domain.marks import Mark, Sort
from manent_server.domain.rules import WAVE, Rules
from manent_server.domain.windows import Window
from tests.unit.domain.values import NOON, seconds

ASKED = Asked("shop", "production", Kind.DEPLOY, "v1", NOON)
LOCK = Mark(
    id="l1",
    sort=Sort.LOCK,
    application="shop",
    environment="production",
    version=None,
    reason="audit",
    owner="ann",
    created_at=NOON,
    starts_at=None,
    expires_at=None,
    automatic=False,
)
LATER = NOON + seconds(60)


def closed(asked: Asked, marks: list[Mark], *, at: datetime) -> tuple[ClosedGate, ...]:
    return gates.closed(asked, Facts(at, Rules(), marks))


def stopping(asked: Asked, marks: list[Mark], *, at: datetime) -> tuple[ClosedGate, ...]:
    return gates.stopping(asked, Facts(at, Rules(), marks))


instants = st.integers(-3, 3).map(lambda n: NOON + timedelta(minutes=n))
marks = st.lists(
    st.builds(
        Mark,
        id=st.sampled_from("abcd"),
        sort=st.sampled_from(Sort),
        application=st.sampled_from([None, "shop", "mail"]),
        environment=st.sampled_from([None, "production", "staging"]),
        version=st.sampled_from([None, "v1", "v2"]),
        reason=st.just("audit"),
        owner=st.just("ann"),
        created_at=st.just(NOON - timedelta(hours=1)),
        starts_at=st.none() | instants,
        expires_at=st.none() | instants,
        automatic=st.booleans(),
    ),
    max_size=5,
)
asked = st.builds(
    Asked,
    application=st.sampled_from(["shop", "mail"]),
    environment=st.sampled_from(["production", "staging"]),
    kind=st.sampled_from(Kind),
    version=st.sampled_from(["v1", "v2"]),
    is_automatic=st.booleans(),
    is_return=st.booleans(),
    override=st.frozensets(st.sampled_from(gates.OVERRIDABLE)),
    requested_at=instants,
    not_before=st.none() | instants,
    not_after=st.none() | instants,
)


def test_nothing_is_closed_without_a_reason():
    assert closed(ASKED, [], at=NOON) == ()


def test_a_lock_names_its_owner_reason_and_the_way_out():
    (gate,) = closed(ASKED, [LOCK], at=LATER)
    assert (gate.gate, gate.phase, gate.closed_since) == ("lock", Phase.LOCKED, NOON)
    assert gate.detail == "shop in production is locked by ann: audit"
    assert (gate.opened_by, gate.opens_at) == ("ann", None)
    assert gate.command == "manent unlock production --application shop"


@pytest.mark.parametrize(
    ("application", "environment", "scope", "command"),
    [
        (None, "production", "every application in production", "manent unlock production"),
        ("shop", None, "shop", "manent unlock --application shop"),
        (None, None, "everything", "manent unlock"),
    ],
)
def test_a_wider_lock_says_how_wide_it_is(
    application: str | None, environment: str | None, scope: str, command: str
):
    lock = replace(LOCK, application=application, environment=environment)
    (gate,) = closed(ASKED, [lock], at=LATER)
    assert gate.detail == f"{scope} is locked by ann: audit"
    assert gate.command == command


@pytest.mark.parametrize("place", [{"application": "mail"}, {"environment": "staging"}])
def test_a_lock_elsewhere_closes_nothing(place: dict[str, str]):
    assert closed(ASKED, [replace(LOCK, **place)], at=LATER) == ()


def test_a_lock_opens_at_its_expiry():
    lock = replace(LOCK, expires_at=LATER)
    assert closed(ASKED, [lock], at=LATER - seconds(0.001))
    assert closed(ASKED, [lock], at=LATER) == ()


def test_a_rollback_passes_an_automatic_lock_only():
    back = replace(ASKED, kind=Kind.ROLLBACK)
    automatic = replace(LOCK, automatic=True)
    assert closed(back, [automatic], at=LATER) == ()
    assert closed(back, [LOCK], at=LATER)
    assert closed(ASKED, [automatic], at=LATER)


def test_a_start_in_the_future_is_the_first_reason():
    asked = replace(ASKED, not_before=LATER)
    scheduled, locked = closed(asked, [LOCK], at=NOON)
    assert (scheduled.gate, scheduled.phase, locked.gate) == ("schedule", Phase.SCHEDULED, "lock")
    assert (scheduled.opens_at, scheduled.opened_by, scheduled.command) == (LATER, "time", None)
    assert "2030-01-01T12:01:00Z" in scheduled.detail
    assert closed(asked, [], at=LATER) == ()


def test_a_persons_lock_stops_the_next_wave():
    automatic = replace(LOCK, id="l3", automatic=True)
    found = stopping(ASKED, [LOCK, automatic], at=LATER)
    assert [gate.detail for gate in found] == ["shop in production is locked by ann: audit"]
    assert stopping(ASKED, [replace(LOCK, application="mail")], at=LATER) == ()


def test_a_deploy_expires_at_its_last_instant():
    assert not gates.is_expired(ASKED, at=LATER)
    asked = replace(ASKED, not_after=LATER)
    assert not gates.is_expired(asked, at=NOON)
    assert gates.is_expired(asked, at=LATER)


def test_the_earliest_opening_is_worth_a_look():
    assert gates.opens_at([]) is None
    found = [replace(LOCK, expires_at=e) for e in (None, LATER + seconds(5), LATER)]
    assert gates.opens_at(closed(ASKED, found, at=NOON)) == LATER


@given(asked, marks, instants)
def test_only_what_covers_the_place_and_binds_closes_it(
    asked: Asked, marks: list[Mark], at: datetime
):
    judgement = gates.judge(asked, Facts(at, Rules(), marks))
    binding = [mark for mark in marks if _binds(mark, asked, at)]
    is_early = asked.not_before is not None and asked.not_before > at
    assert len(judgement.closed) + len(judgement.passed) == len(binding) + is_early
    through = asked.override | (set(Rules().rollback_passes) if asked.is_return else set())
    assert all(gate.gate in through for gate in judgement.passed)
    assert not any(gate.gate in through for gate in judgement.closed)


def _binds(mark: Mark, asked: Asked, at: datetime) -> bool:
    """The same said once more, in another way."""
    is_here = mark.application in (None, asked.application)
    is_here = is_here and mark.environment in (None, asked.environment)
    is_now = (mark.starts_at or at) <= at < (mark.expires_at or at + seconds(1))
    concerns = {
        Sort.HOLD: asked.is_automatic,
        Sort.VETO: mark.version in (None, asked.version),
    }
    repairs = mark.automatic and asked.kind == Kind.ROLLBACK
    return is_here and is_now and concerns.get(mark.sort, not repairs)


@given(asked, marks, instants)
def test_the_order_of_the_facts_changes_nothing(asked: Asked, marks: list[Mark], at: datetime):
    marks = list({mark.id: mark for mark in marks}.values())
    assert closed(asked, marks, at=at) == closed(asked, marks[::-1], at=at)


@given(asked, marks, instants)
def test_time_alone_opens_what_says_when(asked: Asked, marks: list[Mark], at: datetime):
    marks = [replace(mark, starts_at=None) for mark in marks]
    found = closed(asked, marks, at=at)
    if found and all(gate.opens_at for gate in found):
        last = max(gate.opens_at for gate in found if gate.opens_at)
        assert closed(asked, marks, at=last) == ()
    first = gates.opens_at(found)
    if first is not None:
        assert first > at
        assert len(closed(asked, marks, at=first)) < len(found)


@given(asked, marks, instants)
def test_what_stops_a_running_deploy_closes_it_too(asked: Asked, marks: list[Mark], at: datetime):
    for rules in (Rules(), Rules(freeze_running=WAVE)):
        facts = Facts(at, rules, marks)
        found = gates.stopping(asked, facts)
        assert set(found) <= set(gates.closed(asked, facts))
        by_people = [mark for mark in marks if not mark.automatic]
        assert found == gates.stopping(asked, Facts(at, rules, by_people))


@pytest.mark.parametrize(
    ("sort", "changes", "closing"),
    [
        (Sort.FREEZE, {}, [Sort.FREEZE]),
        (Sort.FREEZE, {"starts_at": LATER + seconds(1)}, []),
        (Sort.STOP, {"application": None, "environment": None}, [Sort.STOP]),
        (Sort.HOLD, {}, []),
        (Sort.VETO, {"version": "v1"}, [Sort.VETO]),
        (Sort.VETO, {"version": "v2"}, []),
        (Sort.VETO, {"version": "v1", "environment": "staging"}, []),
    ],
)
def test_each_sort_of_mark_closes_what_it_speaks_of(
    sort: Sort, changes: dict[str, Any], closing: list[Sort]
):
    found = closed(ASKED, [replace(LOCK, sort=sort, **changes)], at=LATER)
    assert [gate.gate for gate in found] == closing


def test_a_hold_keeps_automation_alone_back():
    hold = replace(LOCK, sort=Sort.HOLD)
    (gate,) = closed(replace(ASKED, is_automatic=True), [hold], at=LATER)
    assert (gate.gate, gate.phase) == ("hold", Phase.HELD)
    assert gate.command == "manent unhold production --application shop"


def test_only_a_veto_is_final():
    vetoed = replace(LOCK, sort=Sort.VETO, version="v1")
    found = closed(ASKED, [LOCK, vetoed], at=LATER)
    assert [gate.gate for gate in gates.finally_closed(found)] == ["veto"]
    assert (
        gates.finally_closed(found)[0].command == "manent unveto shop v1 --environment production"
    )


def test_a_freeze_lets_a_running_deploy_finish_unless_the_environment_says_otherwise():
    freeze = replace(LOCK, sort=Sort.FREEZE)
    assert gates.stopping(ASKED, Facts(LATER, Rules(), [freeze])) == ()
    (gate,) = gates.stopping(ASKED, Facts(LATER, Rules(freeze_running=WAVE), [freeze]))
    assert gate.phase == Phase.FROZEN


def test_nothing_passes_a_stop():
    stop = replace(LOCK, sort=Sort.STOP, application=None, environment=None)
    back = replace(ASKED, kind=Kind.ROLLBACK, is_return=True, override=frozenset(gates.OVERRIDABLE))
    facts = Facts(LATER, Rules(), [stop])
    assert [gate.gate for gate in gates.closed(back, facts)] == ["stop"]
    assert [gate.gate for gate in gates.stopping(back, facts)] == ["stop"]


def test_a_rollback_to_what_ran_before_passes_what_the_rules_name():
    """B55: the rules for freezes and windows, and each passed gate is told."""
    freeze = replace(LOCK, sort=Sort.FREEZE)
    back = replace(ASKED, kind=Kind.ROLLBACK, is_return=True)
    judgement = gates.judge(back, Facts(LATER, Rules(), [freeze]))
    assert judgement.closed == ()
    assert [gate.gate for gate in judgement.passed] == ["freeze"]
    strict = Facts(LATER, Rules(rollback_passes=()), [freeze])
    assert [gate.gate for gate in gates.closed(back, strict)] == ["freeze"]
    named = replace(back, is_return=False)
    assert gates.closed(named, Facts(LATER, Rules(), [freeze]))


def test_a_window_that_is_shut_says_when_it_opens():
    window = Window(
        allows=False,
        rule="FREQ=DAILY;BYHOUR=11",
        duration=timedelta(hours=2),
        timezone="UTC",
        reason="lunch",
    )
    (gate,) = gates.closed(ASKED, Facts(NOON, Rules(windows=(window,))))
    assert (gate.gate, gate.phase) == ("window", Phase.FROZEN)
    assert gate.closed_since == NOON - timedelta(hours=1)
    assert gate.opens_at == NOON + timedelta(hours=1)
    assert "lunch" in gate.detail
