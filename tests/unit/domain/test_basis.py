"""What a vote rests on, and what takes its weight."""

import pytest

from manent_server.domain import basis
from manent_server.domain.access import Grant
from manent_server.domain.basis import GROUPS, Basis, Granted

GRANTED = Granted(
    {"sre": (Grant("approver", ("shop",)),), "out": (Grant("approver", deny=True),)},
    {"ci": (Grant("approver"),)},
)
OWN = Grant("approver", ("shop",))
GONE = "may not approve there any more"
OIDC = Basis("oidc:https://idp#1", "s1")


@pytest.mark.parametrize(
    ("given", "groups", "application", "why"),
    [
        (Basis("bob", "t1", OWN), (), "shop", None),
        (Basis("bob", "t1", OWN), (), "site", GONE),
        (Basis("bob", "t1", OWN), ("out",), "shop", GONE),
        (Basis("bob", "t1", Grant("viewer")), ("sre",), "shop", GONE),
        (Basis("bob", "t1", OWN, "its token was revoked"), (), "shop", "its token was revoked"),
        (OIDC, ("sre",), "shop", None),
        (OIDC, ("sre", "out"), "shop", GONE),
        (OIDC, (), "shop", GONE),
        (Basis("bob", GROUPS), ("sre",), "shop", None),
        (Basis("bob", GROUPS), (), "shop", GONE),
        (Basis("bob", "s1"), ("sre",), "shop", None),
        (Basis("bob", "s1"), (), "shop", GONE),
        (Basis("trust:ci#7", "s2"), (), "site", None),
        (Basis("trust:old#7", "s2"), (), "site", GONE),
        (Basis("local:bob@host", ""), (), "shop", None),
    ],
)
def test_a_vote_counts_while_its_sign_in_gives_the_right(
    given: Basis, groups: tuple[str, ...], application: str, why: str | None
) -> None:
    assert basis.lapsed(given, groups, GRANTED, application, "production") == why


def test_what_is_granted_is_kept_as_json() -> None:
    assert basis.load(basis.dump(GRANTED)) == GRANTED
    assert basis.load(None) == Granted()
