"""`access` of manent.yml: who people are, what groups and CI may, and where they sign in."""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from manent_server.domain import access
from manent_server.domain.access import Grant
from manent_server.settings import values
from manent_server.settings.kinds import Choice, Duration, Or, Text, YesNo
from manent_server.settings.node import Listing, Node, Table
from manent_server.settings.reading import INVALID, Invalid, Kind, Reading
from manent_server.settings.structures import REQUIRED, SECTION, Key, ListOf, Section, TableOf

_LONGEST: Final = 200
# Their claims of names and paths can be taken over by somebody else; numbers never are.
_IDENTIFYING: Final[Mapping[str, tuple[str, ...]]] = {
    "token.actions.githubusercontent.com": ("repository_id", "repository_owner_id"),
    "gitlab.com": ("project_id", "namespace_id"),
}
_CLAIM: Final = re.compile(r"[A-Za-z0-9_:/.-]{1,200}")
SYSTEMS: Final = ("github", "gitlab", "slack", "mattermost", "matrix", "generic")
"""Where a person has an id of its own."""


def issuer(text: str) -> str:
    """An issuer as it stands in its tokens."""
    parts = urlsplit(text)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and _is_here(parts.hostname or ""))
    is_plain = not parts.query and not parts.fragment and "@" not in parts.netloc
    if is_safe and is_plain and parts.hostname:
        return text
    raise ValueError("must be an https URL, exactly as `iss` in its tokens has it")


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def pattern(text: str) -> str:
    """A name in which * and ? stand for any characters."""
    if not access.PATTERN.fullmatch(text):
        raise ValueError("must be a name; * and ? in it stand for any characters")
    return text


def line(text: str) -> str:
    """One line of text."""
    if not text.strip() or text != text.strip() or not text.isprintable() or len(text) > _LONGEST:
        raise ValueError(f"must be one line of text, at most {_LONGEST} characters")
    return text


@dataclass(frozen=True)
class ByText:
    """A map from any one line of text to one type."""

    kind: Kind
    what: str

    @property
    def words(self) -> str:
        """With what its keys are."""
        return f"map by {self.what}"

    def read(self, node: Node, reading: Reading) -> Mapping[str, Any] | Invalid:
        """The values, in the order written."""
        if not isinstance(node, Table):
            return reading.refuse(node, "must be a map")
        found = {}
        for name, entry in node.entries.items():
            try:
                line(name)
            except ValueError as error:
                reading.findings.add(entry.place, entry.node.path, f"the {self.what} {error}")
                return INVALID
            found[name] = self.kind.read(entry.node, reading)
        return INVALID if any(value is INVALID for value in found.values()) else found


@dataclass(frozen=True)
class Several:
    """One of a type, or a list of them."""

    kind: Kind

    @property
    def words(self) -> str:
        """With the type of each."""
        return f"{self.kind.words}, or a list of them"

    def read(self, node: Node, reading: Reading) -> tuple[Any, ...] | Invalid:
        """All of them."""
        if isinstance(node, Listing):
            return ListOf(self.kind, least=1).read(node, reading)
        found = self.kind.read(node, reading)
        return INVALID if found is INVALID else (found,)


def _check_trust(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    claims, host = found["claims"], urlsplit(found["issuer"]).hostname or ""
    ids = _IDENTIFYING.get(host)
    if ids is not None and not set(ids) & set(claims):
        yield "claims", f"must name {' or '.join(ids)}: else anybody's jobs there would do"
    elif not claims:
        yield "claims", "must name at least one claim: else every token of the issuer would do"
    for name in claims:
        if not _CLAIM.fullmatch(name):
            yield "claims", "holds a name that is none of a claim"


def _check(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    seen: dict[tuple[str, str], str] = {}
    for login, person in found["people"].items():
        theirs = [*person.ids.items(), *(("principals", one) for one in person.principals)]
        for key in theirs:
            if key in seen:
                yield "people", f"{seen[key]} and {login} have the same {key[0]} {key[1]!r}"
            seen[key] = login
    logins = set(found["people"])
    for one, login in ((key[1], login) for key, login in seen.items() if key[0] == "principals"):
        if one in logins - {login}:
            yield "people", f"{one!r} is a principal of {login} and a person of its own"


def _person(groups: Any, principals: Any, **ids: str | None) -> values.Person:
    known = {system: one for system, one in ids.items() if one is not None}
    return values.Person(groups=groups, principals=principals, ids=known)


_PATTERNS = ListOf(Text("pattern of names", pattern), least=1)
_ROLE = Key("role", Choice(tuple(access.ROLES)), REQUIRED, "what it may")
_WHERE = (
    Key("applications", _PATTERNS, '["*"]', "of which applications, e.g. [shop, web-*]"),
    Key("environments", _PATTERNS, '["*"]', "in which environments"),
)
_GRANT = Section(
    (_ROLE, *_WHERE, Key("deny", YesNo(), "false", "true: takes the role away there; it wins")),
    Grant,
)
_OIDC = Section(
    (
        Key("issuer", Text("https URL", issuer), REQUIRED, "as its tokens have it in `iss`"),
        Key("client_id", Text("text", line), REQUIRED, "of a public client with the device flow"),
        Key("groups_claim", Or(Text("text", line)), "groups", "claim that lists a person's groups"),
    ),
    values.Provider,
)
_TRUST = Section(
    (
        Key("issuer", Text("https URL", issuer), REQUIRED, "as its tokens have it in `iss`"),
        Key(
            "audience", Text("text", line), REQUIRED, "what `aud` has to be; ask for it in the job"
        ),
        Key(
            "claims",
            ByText(Several(Text("text", line)), "claim"),
            REQUIRED,
            "what has to be in the token, each exactly; of several values one",
        ),
        _ROLE,
        *_WHERE,
    ),
    values.Trust,
    lambda found: list(_check_trust(found)),
)
_PERSON = Section(
    (
        Key("groups", ListOf(Text("text", line)), "[]", "groups it is in, beside those of sign-in"),
        Key(
            "principals",
            ListOf(Text("text", line)),
            "[]",
            "names it acts under: oidc:ISSUER#SUBJECT, or the name of a token",
        ),
        *(Key(one, Or(Text("text", line)), "null", f"its id at {one}") for one in SYSTEMS),
    ),
    _person,
)


def unmatched(known: values.Access) -> list[str]:
    """What `access.people` says of somebody that nobody who signs in can match, in words."""
    issuers = {one.issuer for one in known.oidc.values()}
    found = []
    for login, one in known.people.items():
        if not one.principals and not one.ids:
            found.append(
                f"access.people.{login}: has no name anywhere else; only a token called {login} is "
                "this person"
            )
        for principal in one.principals:
            issuer = principal.removeprefix("oidc:").rpartition("#")[0]
            if principal.startswith("oidc:") and issuer not in issuers:
                found.append(
                    f"access.people.{login}: nobody signs in as {principal}: access.oidc has no "
                    f"issuer {issuer or principal}"
                )
    return found


ACCESS: Final = Key(
    "access",
    Section(
        (
            Key("oidc", TableOf(_OIDC, "provider"), "{}", "where people sign in, by name"),
            Key("trust", TableOf(_TRUST, "trust rule"), "{}", "which CI jobs may what, by name"),
            Key("roles", ByText(Several(_GRANT), "group"), "{}", "what a group may, by group"),
            Key("people", ByText(_PERSON, "login"), "{}", "who people are elsewhere, by login"),
            Key("groups_max_age", Duration(), "24h", "how long one sign-in of a person lasts"),
        ),
        values.Access,
        lambda found: list(_check(found)),
    ),
    SECTION,
    "who may do what",
)
