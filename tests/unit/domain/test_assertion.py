"""What an identity token has to say, and for whom it has to be."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manent_server.domain import assertion
from manent_server.domain.assertion import AssertionRefused, Build

AT = datetime(2027, 1, 1, tzinfo=UTC)
NOW = int(AT.timestamp())
ISSUER = "https://id.example"


def demand(**more: Any) -> None:
    said = {"iss": ISSUER, "aud": "me", "sub": "1", "iat": NOW, "exp": NOW + 60} | more
    claims = {name: value for name, value in said.items() if value is not None}
    assertion.demand(claims, issuer=ISSUER, audience="me", at=AT)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"aud": ["me"]},
        {"aud": ["other", "me"], "azp": "me"},
        {"exp": NOW - 29},
        {"iat": NOW + 29},
        {"nbf": NOW + 29},
        {"exp": NOW + 60.5},
        {"aud": "me", "azp": "other"},
    ],
)
def test_a_good_token_is_taken(more: dict[str, Any]):
    demand(**more)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"iss": "https://id.example/"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"iss": ["https://id.example"]}, "issuer"),
        ({"aud": None}, "audience"),
        ({"aud": "you"}, "audience"),
        ({"aud": []}, "audience"),
        ({"aud": {"me": 1}}, "audience"),
        ({"aud": "me too"}, "audience"),
        ({"aud": ["me", "other"], "azp": "other"}, "azp"),
        ({"exp": NOW - 30}, "expired"),
        ({"exp": None}, "its exp is no time"),
        ({"exp": True}, "its exp is no time"),
        ({"exp": "9999999999"}, "its exp is no time"),
        ({"exp": 2**41}, "its exp is no time"),
        ({"exp": -1}, "its exp is no time"),
        ({"exp": float("inf")}, "its exp is no time"),
        ({"iat": None}, "its iat is no time"),
        ({"iat": NOW + 31}, "not good yet"),
        ({"nbf": NOW + 31}, "not good yet"),
        ({"nbf": "soon"}, "its nbf is no time"),
        ({"exp": NOW + 86_401}, "longer than a day"),
        ({"sub": None}, "no subject"),
        ({"sub": ""}, "no subject"),
        ({"sub": 1}, "no subject"),
        ({"sub": "a\nb"}, "no subject"),
    ],
)
def test_a_token_that_is_wrong_is_refused_and_says_why(more: dict[str, Any], why: str):
    with pytest.raises(AssertionRefused, match=why) as caught:
        demand(**more)
    assert caught.value.next
    assert timedelta(seconds=30) == assertion.LEEWAY


@pytest.mark.parametrize(
    "claims",
    [
        {"event_name": "pull_request"},
        {"event_name": "pull_request_target"},
        {"event_name": "pull_request_review_comment", "ref": "refs/heads/main"},
        {"ref": "refs/pull/7/merge"},
        {"pipeline_source": "merge_request_event"},
        {"ref_path": "refs/merge-requests/7/head"},
    ],
)
def test_pull_requests_do_not_sign_in(claims: dict[str, Any]):
    with pytest.raises(AssertionRefused, match="pull requests"):
        assertion.demand_no_pull_request(claims)


def test_pushes_and_schedules_do():
    for event in ("push", "schedule", "workflow_dispatch", None):
        assertion.demand_no_pull_request({"event_name": event, "ref": "refs/heads/main"})


@pytest.mark.parametrize(
    ("claims", "matches"),
    [
        ({"repository_id": "1", "ref": "refs/heads/main"}, True),
        ({"repository_id": 1, "ref": "refs/heads/next"}, True),
        ({"repository_id": "1"}, False),
        ({"repository_id": "11", "ref": "refs/heads/main"}, False),
        ({"repository_id": "1", "ref": "refs/heads/main2"}, False),
        ({"repository_id": ["1"], "ref": "refs/heads/main"}, False),
        ({"repository_id": True, "ref": "refs/heads/main"}, False),
        ({}, False),
    ],
)
def test_every_claim_has_to_match_exactly(claims: dict[str, Any], *, matches: bool):
    wanted = {"repository_id": ("1",), "ref": ("refs/heads/main", "refs/heads/next")}
    assert assertion.matches(claims, wanted) is matches


def test_nothing_asked_for_matches_nothing():
    assert not assertion.matches({"a": "b"}, {})
    assert assertion.matches({"ref_protected": True}, {"ref_protected": ("true",)})
    assert assertion.matches({"ref_protected": False}, {"ref_protected": ("false",)})


def test_a_build_is_known_by_numbers():
    github = {"repository_id": "5", "repository": "me/shop", "actor_id": 42, "sub": "repo:me/shop"}
    assert assertion.build(github) == Build("5", "github", "42")
    gitlab = {"project_id": 5, "user_id": "42", "sub": "project_path:me/shop"}
    assert assertion.build(gitlab) == Build("5", "gitlab", "42")
    assert assertion.build({"sub": "job-1"}) == Build("job-1", None, None)


@pytest.mark.parametrize(
    ("claim", "found"),
    [
        (["sre", "dev", "sre", 1, "a\nb"], ("dev", "sre")),
        ("sre", ("sre",)),
        (None, ()),
        ({"sre": True}, ()),
    ],
)
def test_groups_are_a_list_of_texts(claim: Any, found: tuple[str, ...]):
    assert assertion.groups({"groups": claim}, "groups") == found
    assert assertion.groups({"groups": claim}, None) == ()
