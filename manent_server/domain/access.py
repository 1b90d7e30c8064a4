"""Who may do what, where: roles and their rights, grants with a scope, and who asks."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Final, Literal

from manent_server.domain.errors import NotAllowed

READ = "read"
DEPLOY = "deploy"
ROLLBACK = "rollback"
CANCEL = "cancel"
RESOLVE = "resolve"
LOCK = "lock"
SCHEDULE = "schedule"
STOP = "stop"
RESUME = "resume"
OVERRIDE = "override"
PRIORITISE = "prioritise"
APPROVE = "approve"
BYPASS = "bypass"
AUDIT = "audit"
ADMINISTER = "administer"
GRANT = "grant"

_DEPLOYER: Final = frozenset({READ, DEPLOY, ROLLBACK, CANCEL, RESOLVE, SCHEDULE})
_OPERATOR: Final = _DEPLOYER | {LOCK, STOP, RESUME, OVERRIDE, PRIORITISE, AUDIT, ADMINISTER}

# From the one that may least: a refusal names the first that would do.
ROLES: dict[str, frozenset[str]] = {
    "viewer": frozenset({READ}),
    "deployer": _DEPLOYER,
    "approver": frozenset({READ, APPROVE}),
    "operator": _OPERATOR,
    "admin": _OPERATOR | {APPROVE, BYPASS, GRANT},
}
Kind = Literal["person", "service"]
PERSON: Final = "person"
SERVICE: Final = "service"
EVERYTHING: Final = ("*",)
PATTERN: Final = re.compile(r"[a-z0-9*?][a-z0-9*?._-]{0,62}")
"""What a pattern of names is made of: a name in which `*` and `?` stand for any characters."""


@dataclass(frozen=True)
class Area:
    """Applications and environments, by patterns: each of the one in each of the other."""

    applications: tuple[str, ...] = EVERYTHING
    environments: tuple[str, ...] = EVERYTHING

    @property
    def is_everywhere(self) -> bool:
        """Whether nothing is outside of it."""
        return "*" in self.applications and "*" in self.environments

    def covers(self, application: str | None, environment: str | None) -> bool:
        """Whether the place is inside; None is all of them."""
        return _covers(self.applications, application) and _covers(self.environments, environment)

    def touches(self, application: str | None, environment: str | None) -> bool:
        """Whether some of the place is inside; None is all of them."""
        return (application is None or _covers(self.applications, application)) and (
            environment is None or _covers(self.environments, environment)
        )

    def meets(self, other: "Area") -> bool:
        """Whether there can be a place that is inside of both."""
        return _meet(self.applications, other.applications) and _meet(
            self.environments, other.environments
        )


def _meet(some: Sequence[str], others: Sequence[str]) -> bool:
    return any(_overlap(one, other) for one in some for other in others)


def _overlap(one: str, other: str) -> bool:
    """Whether some name fits both patterns: what is left of each, step by step."""
    left, seen = [(one, other)], set()
    while left:
        pair = left.pop()
        if pair in seen:
            continue
        seen.add(pair)
        if pair == ("", ""):
            return True
        left += _steps(*pair) + [(b, a) for a, b in _steps(pair[1], pair[0])]
    return False


def _steps(one: str, other: str) -> list[tuple[str, str]]:
    """What is left once the first character of one stands for something of the other."""
    if not one:
        return []
    if one[0] == "*":
        return [(one[1:], other), *([(one, other[1:])] if other else [])]
    is_same = bool(other) and other[0] != "*" and (one[0] == other[0] or "?" in (one[0], other[0]))
    return [(one[1:], other[1:])] if is_same else []


def _covers(patterns: Sequence[str], name: str | None) -> bool:
    if "*" in patterns:
        return True
    return name is not None and any(fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True)
class Grant:
    """The rights of a role in an area; with `deny` they are taken away there.

    Who is denied a role may still look; who is denied `viewer` may nothing: what one cannot see
    one cannot touch.
    """

    role: str
    applications: tuple[str, ...] = EVERYTHING
    environments: tuple[str, ...] = EVERYTHING
    deny: bool = False

    @property
    def area(self) -> Area:
        """Where it holds."""
        return Area(self.applications, self.environments)

    def allows(self, right: str) -> bool:
        """Whether it gives the right in its area."""
        return not self.deny and right in ROLES[self.role]

    def denies(self, right: str) -> bool:
        """Whether it takes the right away in its area."""
        rights = ROLES[self.role]
        return self.deny and (rights == {READ} or (right != READ and right in rights))


@dataclass(frozen=True)
class Scope:
    """Where one right holds: inside an allowed area and outside every denied one."""

    allowed: tuple[Area, ...]
    denied: tuple[Area, ...] = ()

    @property
    def is_everywhere(self) -> bool:
        """Whether nothing is outside of it."""
        return not self.denied and any(area.is_everywhere for area in self.allowed)

    @property
    def is_nowhere(self) -> bool:
        """Whether nothing is inside of it."""
        return not self.allowed or any(area.is_everywhere for area in self.denied)

    def covers(self, application: str | None, environment: str | None) -> bool:
        """Whether all of the place is inside; None is all of them."""
        return any(area.covers(application, environment) for area in self.allowed) and not any(
            area.touches(application, environment) for area in self.denied
        )

    def touches(self, application: str | None, environment: str | None) -> bool:
        """Whether some of the place is inside; None is all of them.

        A lock on all of an environment touches whoever has an application there.
        """
        return any(area.touches(application, environment) for area in self.allowed) and not any(
            area.covers(application, environment) for area in self.denied
        )


ALL: Final = Scope((Area(),))
"""Nothing is outside of it."""


def everywhere(role: str) -> tuple[Grant, ...]:
    """The role without any limit."""
    return (Grant(role),)


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes:
        name: The principal: NAME of a token, `oidc:ISSUER#SUBJECT`, trust rule + repository id,
            `local:USER@HOST`, or an automation.
        grants: What it may do, and where.
        kind: Whether a person or a program asks.
        login: The internal identity by which people are distinct: a key of `access.people`, else
            for a person the principal; None for a program that nobody is mapped to.
        groups: The groups it is in.
        channel: How it came: `api`, `cli`, `page`, a chat's kind, `local` or `automation`.
        address: Where it came from, if it came over the network.
        acts_for: The login of the person on whose behalf a program of CI runs.
        session: The id of its token or session, None for what has none.
    """

    name: str
    grants: tuple[Grant, ...]
    kind: Kind = "service"
    login: str | None = None
    groups: frozenset[str] = frozenset()
    channel: str = "api"
    address: str | None = None
    acts_for: str | None = None
    session: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.login is None and self.kind == PERSON:
            object.__setattr__(self, "login", self.name)

    @cached_property
    def _scopes(self) -> Mapping[str, Scope]:
        rights = frozenset().union(*(ROLES[grant.role] for grant in self.grants))
        return {right: self._scope(right) for right in rights}

    def _scope(self, right: str) -> Scope:
        return Scope(
            tuple(grant.area for grant in self.grants if grant.allows(right)),
            tuple(grant.area for grant in self.grants if grant.denies(right)),
        )

    def scope(self, right: str) -> Scope:
        """Where it has the right."""
        return self._scopes.get(right, _NOWHERE)

    def may(
        self, right: str, application: str | None = None, environment: str | None = None
    ) -> bool:
        """Whether it has the right on all of the place; None is every application, environment."""
        return self.scope(right).covers(application, environment)

    def may_somewhere(self, right: str) -> bool:
        """Whether there can be a place where it has the right."""
        return not self.scope(right).is_nowhere

    def sees(self, application: str | None, environment: str | None) -> bool:
        """Whether something of the place is visible to it."""
        return self.scope(READ).touches(application, environment)

    def demand(
        self, right: str, application: str | None = None, environment: str | None = None
    ) -> None:
        """Raise `NotAllowed` unless it has the right on all of the place."""
        if not self.may(right, application, environment):
            raise NotAllowed(
                f"{self.name} may not {right}{_where(application, environment)}",
                next=_advice(right, application, environment),
            )

    def demand_givable(self, grant: Grant) -> None:
        """Raise `NotAllowed` if the grant gives somebody what is denied to the caller there.

        Else who may let others in takes back what was taken from them, under another name.
        """
        for right in sorted(ROLES[grant.role]):
            if any(area.meets(grant.area) for area in self.scope(right).denied):
                raise NotAllowed(
                    f"{self.name} is denied to {right} in some of these places, so nobody gets it"
                    f" from {self.name} there",
                    next="name other applications and environments, or ask somebody who may there",
                )

    def demand_somewhere(self, right: str) -> None:
        """Raise `NotAllowed` unless there can be a place where it has the right."""
        if not self.may_somewhere(right):
            raise NotAllowed(f"{self.name} may not {right}", next=_advice(right, None, None))


_NOWHERE: Final = Scope(())


def _where(application: str | None, environment: str | None) -> str:
    if application and environment:
        return f" {application} in {environment}"
    return f" all of {application or environment}" if application or environment else " everywhere"


def _advice(right: str, application: str | None, environment: str | None) -> str:
    able = [role for role, rights in ROLES.items() if right in rights]
    role = f"the role {able[0]}" if able else "a role that may"
    place = "" if application is None and environment is None else " there"
    return f"ask an administrator for {role}{place}; manent auth status shows what you may"


def schedule(name: str, application: str) -> Caller:
    """A schedule at its work: it deploys its application, and passes no gate."""
    grant = Grant("deployer", (application,))
    return Caller(f"schedule:{name}", (grant,), channel="automation")


PROMOTION: Final = "promotion"


def promotion(application: str) -> Caller:
    """Automatic promotion at its work: it deploys the application, and passes no gate."""
    return Caller(PROMOTION, (Grant("deployer", (application,)),), channel="automation")


def local(user: str, host: str) -> Caller:
    """Whoever has the database and its configuration at hand: everything, on record."""
    return Caller(f"local:{user}@{host}", everywhere("admin"), kind="person", channel="local")


MANENT: Final = Caller("manent", everywhere("admin"), channel="automation")
"""manent itself, tidying up."""


def patterns(texts: Iterable[str]) -> tuple[str, ...]:
    """Patterns as they were given, several separated by commas; none is every name.

    Raises:
        ValueError: One of them is no pattern.
    """
    found = tuple(one.strip() for text in texts for one in text.split(","))
    for one in found:
        if not PATTERN.fullmatch(one):
            raise ValueError(f"{one[:70]!r} is no pattern of names")
    return found or EVERYTHING
