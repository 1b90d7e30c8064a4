"""Which end of a deploy is which exit code."""

import pytest

from manent_cli import exit_codes

ENDS = [
    ("SUCCESS", "deployed", 0),
    ("SUCCESS", "partial", 13),
    ("ERROR", "failed", 3),
    ("ERROR", "rolled_back", 3),
    ("ERROR", "rollback_failed", 3),
    ("ERROR", "poisoned", 3),
    ("CANCELLED", "cancelled", 9),
    ("CANCELLED", "abandoned", 9),
    ("CANCELLED", "rejected", 5),
    ("CANCELLED", "superseded", 11),
    ("CANCELLED", "expired", 12),
]


@pytest.mark.parametrize(("state", "outcome", "code"), ENDS)
def test_every_end_has_its_code(state, outcome, code):
    """B149: 0 only for SUCCESS, distinct documented codes, a good rollback is a failure."""
    assert exit_codes.of_deploy({"state": state, "outcome": outcome}) == code


@pytest.mark.parametrize(
    "deploy",
    [
        {},
        {"state": None, "outcome": None},
        {"state": "SUCCESS"},
        {"state": "SUCCESS", "outcome": "something new"},
        {"state": "SUCCESS", "outcome": "rolled_back"},
        {"state": "DONE", "outcome": "deployed"},
        {"state": "ERROR", "outcome": "deployed"},
        {"state": "CANCELLED", "outcome": "deployed"},
    ],
)
def test_an_end_nobody_knows_is_no_success(deploy):
    """B149: failed deploy, exit code 0."""
    assert exit_codes.of_deploy(deploy) != 0


def test_success_of_another_version_is_no_success():
    """B149: 0 only for SUCCESS of the asked version."""
    deploy = {"state": "SUCCESS", "outcome": "deployed", "version": "1.0"}
    assert exit_codes.of_deploy(deploy, asked="1.0") == 0
    assert exit_codes.of_deploy(deploy, asked="1.00") == 1


def test_a_partial_end_stays_partial_whatever_was_asked():
    deploy = {"state": "SUCCESS", "outcome": "partial", "version": "1.0"}
    assert exit_codes.of_deploy(deploy, asked="2.0") == 13


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 2), (401, 4), (403, 4), (404, 6), (409, 5), (422, 2), (418, 1), (500, 1), (503, 1)],
)
def test_every_refusal_has_its_code(status, code):
    assert exit_codes.of_status(status) == code


def test_every_code_says_what_it_means():
    codes = {
        value
        for name, value in vars(exit_codes).items()
        if name.isupper() and isinstance(value, int)
    }
    assert set(exit_codes.MEANING) == codes


@pytest.mark.parametrize("state", ["DELAYED", "ENQUEUED", "PENDING", None, "UNHEARD_OF"])
def test_only_the_three_ends_are_ends(state):
    assert not exit_codes.has_ended({"state": state})
