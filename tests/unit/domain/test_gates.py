"""Gates: one pure function says why a deploy may not run now."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import gates
from manent_server.domain.deploy import Kind, Phase
from manent_server.domain.gates import Asked, Lock
from tests.unit.domain.values import NOON, seconds

ASKED = Asked("shop", "production", Kind.DEPLOY, NOON)
LOCK = Lock(
    id="l1",
    application="shop",
    environment="production",
    reason="audit",
    owner="ann",
    created_at=NOON,
    expires_at=None,
    automatic=False,
)
LATER = NOON + seconds(60)

instants = st.integers(-3, 3).map(lambda n: NOON + timedelta(minutes=n))
locks = st.lists(
    st.builds(
        Lock,
        id=st.sampled_from("abcd"),
        application=st.sampled_from([None, "shop", "mail"]),
        environment=st.sampled_from([None, "production", "staging"]),
        reason=st.just("audit"),
        owner=st.just("ann"),
        created_at=instants,
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
    requested_at=instants,
    not_before=st.none() | instants,
    not_after=st.none() | instants,
)


def test_nothing_is_closed_without_a_reason():
    assert gates.closed(ASKED, [], at=NOON) == ()


def test_a_lock_names_its_owner_reason_and_the_way_out():
    (gate,) = gates.closed(ASKED, [LOCK], at=LATER)
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
    (gate,) = gates.closed(ASKED, [lock], at=LATER)
    assert gate.detail == f"{scope} is locked by ann: audit"
    assert gate.command == command


@pytest.mark.parametrize("place", [{"application": "mail"}, {"environment": "staging"}])
def test_a_lock_elsewhere_closes_nothing(place: dict[str, str]):
    assert gates.closed(ASKED, [replace(LOCK, **place)], at=LATER) == ()


def test_a_lock_opens_at_its_expiry():
    lock = replace(LOCK, expires_at=LATER)
    assert gates.closed(ASKED, [lock], at=LATER - seconds(0.001))
    assert gates.closed(ASKED, [lock], at=LATER) == ()


def test_a_rollback_passes_an_automatic_lock_only():
    back = replace(ASKED, kind=Kind.ROLLBACK)
    automatic = replace(LOCK, automatic=True)
    assert gates.closed(back, [automatic], at=LATER) == ()
    assert gates.closed(back, [LOCK], at=LATER)
    assert gates.closed(ASKED, [automatic], at=LATER)


def test_a_start_in_the_future_is_the_first_reason():
    asked = replace(ASKED, not_before=LATER)
    scheduled, locked = gates.closed(asked, [LOCK], at=NOON)
    assert (scheduled.gate, scheduled.phase, locked.gate) == ("schedule", Phase.SCHEDULED, "lock")
    assert (scheduled.opens_at, scheduled.opened_by, scheduled.command) == (LATER, "time", None)
    assert LATER.isoformat() in scheduled.detail
    assert gates.closed(asked, [], at=LATER) == ()


def test_a_persons_lock_stops_the_next_wave():
    automatic = replace(LOCK, id="l3", automatic=True)
    found = gates.stopping(ASKED, [LOCK, automatic], at=LATER)
    assert [gate.detail for gate in found] == ["shop in production is locked by ann: audit"]
    assert gates.stopping(ASKED, [replace(LOCK, application="mail")], at=LATER) == ()


def test_a_deploy_expires_at_its_last_instant():
    assert not gates.is_expired(ASKED, at=LATER)
    asked = replace(ASKED, not_after=LATER)
    assert not gates.is_expired(asked, at=NOON)
    assert gates.is_expired(asked, at=LATER)


def test_the_earliest_opening_is_worth_a_look():
    assert gates.opens_at([]) is None
    found = [replace(LOCK, expires_at=e) for e in (None, LATER + seconds(5), LATER)]
    assert gates.opens_at(gates.closed(ASKED, found, at=NOON)) == LATER


@given(asked, locks, instants)
def test_only_what_covers_the_place_and_holds_closes_it(
    asked: Asked, locks: list[Lock], at: datetime
):
    found = gates.closed(asked, locks, at=at)
    binding = [
        lock
        for lock in locks
        if lock.application in (None, asked.application)
        and lock.environment in (None, asked.environment)
        and (lock.expires_at is None or lock.expires_at > at)
        and not (lock.automatic and asked.kind == Kind.ROLLBACK)
    ]
    is_early = asked.not_before is not None and asked.not_before > at
    assert len(found) == len(binding) + is_early
    assert [gate.gate for gate in found][:1] == (
        ["schedule"] if is_early else ["lock"] if binding else []
    )
    since = [gate.closed_since for gate in found if gate.gate == "lock"]
    assert since == sorted(since)


@given(asked, locks, instants)
def test_the_order_of_the_facts_changes_nothing(asked: Asked, locks: list[Lock], at: datetime):
    locks = list({lock.id: lock for lock in locks}.values())
    assert gates.closed(asked, locks, at=at) == gates.closed(asked, locks[::-1], at=at)


@given(asked, locks, instants)
def test_time_alone_opens_what_says_when(asked: Asked, locks: list[Lock], at: datetime):
    found = gates.closed(asked, locks, at=at)
    if found and all(gate.opens_at for gate in found):
        last = max(gate.opens_at for gate in found if gate.opens_at)
        assert gates.closed(asked, locks, at=last) == ()
    first = gates.opens_at(found)
    if first is not None:
        assert first > at
        assert len(gates.closed(asked, locks, at=first)) < len(found)


@given(asked, locks, instants)
def test_what_stops_a_running_deploy_closes_it_too(asked: Asked, locks: list[Lock], at: datetime):
    stopping = gates.stopping(asked, locks, at=at)
    assert set(stopping) <= set(gates.closed(asked, locks, at=at))
    by_people = [lock for lock in locks if not lock.automatic]
    assert stopping == gates.stopping(asked, by_people, at=at)
