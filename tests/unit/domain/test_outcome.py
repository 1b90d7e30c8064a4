"""How a pass ends, and whether touched targets are brought back."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import outcome
from manent_server.domain.deploy import Kind, Outcome
from manent_server.domain.outcome import Passed, Undoing

passes = st.builds(
    Passed,
    kind=st.sampled_from(Kind),
    is_complete=st.booleans(),
    is_cancelled=st.booleans(),
    undoing=st.sampled_from(Undoing),
)


def passed(
    kind: Kind = Kind.DEPLOY,
    *,
    complete: bool = False,
    cancelled: bool = False,
    undoing: Undoing = Undoing.NONE,
) -> Passed:
    return Passed(kind, is_complete=complete, is_cancelled=cancelled, undoing=undoing)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (passed(complete=True), Outcome.DEPLOYED),
        (passed(), Outcome.FAILED),
        (passed(undoing=Undoing.WORKED), Outcome.ROLLED_BACK),
        (passed(undoing=Undoing.FAILED), Outcome.ROLLBACK_FAILED),
        (passed(cancelled=True), Outcome.CANCELLED),
        (passed(cancelled=True, undoing=Undoing.WORKED), Outcome.CANCELLED),
        (passed(cancelled=True, undoing=Undoing.FAILED), Outcome.ROLLBACK_FAILED),
        (passed(Kind.ROLLBACK, complete=True), Outcome.DEPLOYED),
        (passed(Kind.ROLLBACK), Outcome.ROLLBACK_FAILED),
        (passed(Kind.ROLLBACK, cancelled=True), Outcome.CANCELLED),
    ],
)
def test_a_pass_ends_as(what: Passed, expected: Outcome):
    assert outcome.name(what) == expected


@given(passes)
def test_what_is_complete_stays_so_whatever_else_happened(what: Passed):
    assert (outcome.name(what) == Outcome.DEPLOYED) == what.is_complete


@given(passes)
def test_a_rollback_that_failed_is_never_hidden(what: Passed):
    if not what.is_complete and what.undoing == Undoing.FAILED:
        assert outcome.name(what) == Outcome.ROLLBACK_FAILED


def undoes(what: Passed, *, automatic: bool = True, wants: bool = False, touched: bool = True):
    return outcome.should_undo(
        what, is_automatic=automatic, wants_rollback=wants, is_touched=touched
    )


def test_a_failed_deploy_is_brought_back_where_the_order_says_so():
    assert undoes(passed())
    assert not undoes(passed(), automatic=False)
    assert not undoes(passed(), automatic=False, wants=True)


def test_a_cancel_decides_for_itself():
    assert undoes(passed(cancelled=True), automatic=False, wants=True)
    assert not undoes(passed(cancelled=True), automatic=True, wants=False)


def test_nothing_is_brought_back_where_nothing_was_done():
    for automatic, wants, cancelled in product((True, False), repeat=3):
        more = {"automatic": automatic, "wants": wants}
        assert not undoes(passed(cancelled=cancelled), touched=False, **more)
        assert not undoes(passed(complete=True, cancelled=cancelled), **more)
        assert not undoes(passed(Kind.ROLLBACK, cancelled=cancelled), **more)
