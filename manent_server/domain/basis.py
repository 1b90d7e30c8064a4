"""Basis: the sign-in a vote was given with, and whether it still gives the right to vote.

A vote is looked at whenever votes are counted, last in the transaction that starts the deploy:
whoever was locked out, or has lost the role, has no say in what has not begun.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from manent_server.domain.access import APPROVE, Caller, Grant

GROUPS: Final = "groups"
"""In place of a sign-in: the groups alone give the right to a person of a chat."""
_OIDC: Final = "oidc:"
_TRUST: Final = "trust:"


@dataclass(frozen=True)
class Granted:
    """What is given to whoever has no role of their own, by the policy in force.

    Attributes:
        groups: By group.
        trust: To jobs of CI, by trust rule.
    """

    groups: Mapping[str, tuple[Grant, ...]] = field(default_factory=dict)
    trust: Mapping[str, tuple[Grant, ...]] = field(default_factory=dict)

    def of(self, groups: Iterable[str]) -> tuple[Grant, ...]:
        """What these groups may together."""
        return tuple(grant for one in sorted(groups) for grant in self.groups.get(one, ()))


@dataclass(frozen=True)
class Basis:
    """What a vote rests on.

    Attributes:
        principal: Who gave it.
        session: The token or session it was given with; empty where that has no name.
        own: What its token gives; None where it was no token.
        ended: Why it is in force no more; None: it is, or has ended by itself.
    """

    principal: str
    session: str
    own: Grant | None = None
    ended: str | None = None


def lapsed(
    basis: Basis, groups: Iterable[str], granted: Granted, application: str, environment: str
) -> str | None:
    """Why a vote counts no more, in words; None: it does.

    Args:
        basis: What it rests on.
        groups: All the voter is in now.
        granted: By the policy in force.
        application: Of the deploy.
        environment: Where it goes.
    """
    if basis.ended is not None:
        return basis.ended
    grants = _grants(basis, granted.of(groups), granted)
    if grants is None or Caller(basis.principal, grants).may(APPROVE, application, environment):
        return None
    return "may not approve there any more"


def _grants(
    basis: Basis, of_groups: tuple[Grant, ...], granted: Granted
) -> tuple[Grant, ...] | None:
    """What the voter may by now; None: nothing here says so."""
    if basis.own is not None:
        return (basis.own, *(grant for grant in of_groups if grant.deny))
    if basis.principal.startswith(_TRUST):
        rule = basis.principal.removeprefix(_TRUST).partition("#")[0]
        return granted.trust.get(rule, ())
    # Whoever came by a chat is named as a person, whatever sign-in of theirs was at the provider.
    is_by_groups = bool(basis.session) or basis.principal.startswith(_OIDC)
    return of_groups if is_by_groups else None


def dump(granted: Granted) -> dict[str, Any]:
    """As JSON, for the policy's row."""
    return {
        name: {one: [asdict(grant) for grant in grants] for one, grants in sorted(found.items())}
        for name, found in (("groups", granted.groups), ("trust", granted.trust))
    }


def load(body: Mapping[str, Any] | None) -> Granted:
    """From JSON; what an older release did not write gives nothing."""
    found = {
        name: {
            one: tuple(
                Grant(
                    grant["role"],
                    tuple(grant["applications"]),
                    tuple(grant["environments"]),
                    grant["deny"],
                )
                for grant in grants
            )
            for one, grants in (body or {}).get(name, {}).items()
        }
        for name in ("groups", "trust")
    }
    return Granted(**found)
