"""The life of a deploy: which state follows which, and where outcomes belong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import deploy
from manent_server.domain.deploy import LIVE, MOVES, OUTCOMES, Outcome, State

ENDS = frozenset(State) - LIVE


def test_every_state_is_in_the_table():
    assert set(MOVES) == set(State)


@given(st.sampled_from(State), st.sampled_from(State))
def test_an_ended_deploy_never_moves(start: State, to: State):
    if deploy.may_move(start, to):
        assert start in LIVE
    assert deploy.may_move(start, to) == (to in MOVES[start])


@pytest.mark.parametrize("start", sorted(LIVE))
def test_every_live_state_leads_to_an_end(start: State):
    reached, todo = {start}, [start]
    while todo:
        new = MOVES[todo.pop()] - reached
        reached |= new
        todo += new
    assert reached >= ENDS


def test_only_what_ran_succeeds_or_fails():
    for end in (State.SUCCESS, State.ERROR):
        assert [start for start in State if deploy.may_move(start, end)] == [State.PENDING]


def test_every_outcome_belongs_to_one_end():
    assert set(OUTCOMES) == ENDS
    for outcome in Outcome:
        assert [s for s, found in OUTCOMES.items() if outcome in found] == [
            deploy.state_of(outcome)
        ]


def test_an_end_nobody_can_vouch_for_locks():
    assert {Outcome.ROLLBACK_FAILED, Outcome.POISONED, Outcome.ABANDONED} == deploy.LOCKING
