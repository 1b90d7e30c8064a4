"""Approval: who has to agree before a deploy may start, whose word counts, what is missing.

A vote is bound to the digest of what was asked: order, artifact and configuration. A change of
any of them is another question, to which nobody has said anything yet.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

GATE: Final = "approval"
REFUSE: Final = "refuse"
ALLOW: Final = "allow"
UNKNOWN_REQUESTER: Final = (REFUSE, ALLOW)
SERVICE: Final = "service:"
_OPAQUE: Final = "oidc:"
_HIDDEN: Final = frozenset({"Cc", "Cf"})


class Said(StrEnum):
    """What one says."""

    APPROVE = "approve"
    REJECT = "reject"


@dataclass(frozen=True)
class Rule:
    """Who has to agree.

    Attributes:
        name: Of the rule, unique in its environment.
        quorum: How many people have to approve.
        members: Groups, people and programs whose approval counts; none: all who may approve.
        required: Of each of these groups one has to approve, too.
        expires: How long it is waited for; None: for ever.
        chat: Where it is asked.
        unknown_requester: Whether a deploy is refused that a program asks for and nobody knows
            for whom: then nobody knows either who must not approve it.
    """

    name: str
    quorum: int = 1
    members: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    expires: timedelta | None = None
    chat: tuple[str, ...] = ()
    unknown_requester: str = ALLOW


@dataclass(frozen=True)
class Person:
    """One of `access.people`: the groups it is in, the names it has elsewhere."""

    groups: frozenset[str] = frozenset()
    handles: frozenset[str] = frozenset()


People = Mapping[str, Person]


@dataclass(frozen=True)
class Requester:
    """Who asked for a deploy.

    `login`: the person, if it is one; `acts_for`: the one a program of CI acts for;
    `is_automatic`: a schedule, a promotion or manent itself asked; `is_nobodys`: a schedule that
    a program made, and nobody knows for whom.
    """

    principal: str
    login: str | None = None
    acts_for: str | None = None
    is_automatic: bool = False
    is_nobodys: bool = False

    @property
    def is_unknown(self) -> bool:
        """Whether a program asked and nobody knows for whom."""
        is_alone = self.login is None and self.acts_for is None and not self.is_automatic
        return is_alone or self.is_nobodys


@dataclass(frozen=True)
class Subject:
    """What is known of a deploy when its votes are counted; `authors` of its changes as given."""

    requester: Requester
    authors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Voter:
    """Who votes: `login` of a person, None of a program; `groups` as its sign-in gave them."""

    principal: str
    login: str | None
    groups: frozenset[str] = frozenset()

    @property
    def identity(self) -> str:
        """By which voters are distinct, whatever way they came."""
        return f"{SERVICE}{self.principal}" if self.login is None else person(self.login)


@dataclass(frozen=True)
class Vote:
    """One decision, given once; `void`: why something outside of the rule took its weight."""

    voter: Voter
    decision: Said
    at: datetime
    comment: str | None = None
    channel: str = "api"
    void: str | None = None
    session: str = ""

    @property
    def is_void(self) -> bool:
        """Whether it counts no more."""
        return self.void is not None


@dataclass(frozen=True)
class Verdict:
    """What the votes come to under a rule.

    Attributes:
        approvers: Whose approval counts, in order.
        lapsed: Approvals that count no more, with the reason.
        missing: What is lacking, in words; empty: the rule is met.
    """

    approvers: tuple[str, ...]
    lapsed: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]

    @property
    def is_met(self) -> bool:
        """Whether everyone who has to agree has done so."""
        return not self.missing


def person(login: str) -> str:
    """The one spelling of a login: `Alice` is `alice`; a subject of OIDC is what it is.

    Blanks around it and signs that show nothing make nobody else of anybody.
    """
    if login.startswith(_OPAQUE):
        return login
    if login.isascii() and login.isprintable():
        return login.strip().casefold()  # as below, but many names are spelled for each vote
    shown = "".join(c for c in login if unicodedata.category(c) not in _HIDDEN)
    # Folding may undo the form: once more, so that a spelling of a spelling is itself.
    folded = unicodedata.normalize("NFKC", shown).strip().casefold()
    return unicodedata.normalize("NFKC", folded)


def meant(name: str, people: People) -> frozenset[str]:
    """Every identity a name may stand for; a name nobody has stands for itself.

    A bare id is one person's at GitHub and another's at GitLab: who wrote a change is either.
    """
    return _meant(name, _by_name(people))


def _meant(name: str, known: Mapping[str, set[str]]) -> frozenset[str]:
    wanted = person(name)
    return frozenset({wanted, *known.get(wanted, ())})


def _by_name(people: People) -> Mapping[str, set[str]]:
    """The identities behind every name: many changes are looked up among many people."""
    found: dict[str, set[str]] = defaultdict(set)
    for login, known in people.items():
        for name in (login, *known.handles):
            found[person(name)].add(person(login))
    return found


def excluded(subject: Subject, people: People) -> dict[str, str]:
    """The identities that must not approve, each with the reason."""
    asked, known = subject.requester, _by_name(people)
    authors = dict.fromkeys(subject.authors)
    reasons = [(author, "wrote one of its changes") for author in authors]
    if asked.acts_for is not None:
        reasons.append((asked.acts_for, "is who the program that asked for it acts for"))
    reasons.append((asked.login or asked.principal, "asked for it"))
    found = {one: why for name, why in reasons for one in _meant(name, known)}
    if asked.login is None:
        found[f"{SERVICE}{asked.principal}"] = "asked for it"
    return found


def groups_of(voter: Voter, people: People) -> frozenset[str]:
    """The groups it is in now: those of its sign-in, and those it is listed in."""
    if voter.login is None:
        return voter.groups
    mine = person(voter.login)
    listed = (known.groups for login, known in people.items() if person(login) == mine)
    return voter.groups.union(*listed)


def why_not(rule: Rule, voter: Voter, subject: Subject, people: People) -> str | None:
    """Why a voter has no say under a rule, in words; None: it has."""
    return _why_not(rule, voter, excluded(subject, people), people)


def _why_not(rule: Rule, voter: Voter, barred: Mapping[str, str], people: People) -> str | None:
    if voter.identity in barred:
        return barred[voter.identity]
    named = frozenset((*rule.members, *rule.required))
    if voter.login is None:
        if voter.principal not in named:
            return "is a program, which the rule does not name"
        # Neither counts the word of whoever is behind it, by way of their program.
        behind = meant(voter.principal, people) & barred.keys()
        return f"is the program of one who {barred[min(behind)]}" if behind else None
    if not rule.members or _is_among(voter, named, people):
        return None
    return f"is in none of {', '.join(sorted(named))}"


def judge(rule: Rule, votes: Iterable[Vote], subject: Subject, people: People) -> Verdict:
    """What the votes for one digest come to: who is in force now counts, each once."""
    counting: dict[str, Voter] = {}
    lapsed: dict[str, str] = {}
    barred = excluded(subject, people)
    for vote in votes:
        if vote.decision != Said.APPROVE:
            continue
        mine = vote.voter.identity
        reason = vote.void or _why_not(rule, vote.voter, barred, people)
        if reason is None:
            counting.setdefault(mine, vote.voter)
        else:
            lapsed[mine] = reason
    return Verdict(
        approvers=tuple(voter.login or voter.principal for voter in counting.values()),
        lapsed=tuple((who, why) for who, why in lapsed.items() if who not in counting),
        missing=_missing(rule, list(counting.values()), people),
    )


def _missing(rule: Rule, voters: Sequence[Voter], people: People) -> tuple[str, ...]:
    members = frozenset(rule.members)
    found = [one for one in voters if not members or _is_among(one, members, people)]
    lacking = rule.quorum - len(found)
    words = []
    if lacking > 0:
        of = f" of {', '.join(rule.members)}" if rule.members else ""
        words.append(f"{lacking} more{of}")
    for group in rule.required:
        if not any(_is_among(voter, frozenset({group}), people) for voter in voters):
            words.append(f"one of {group}")
    return tuple(words)


def _is_among(voter: Voter, named: frozenset[str], people: People) -> bool:
    if voter.login is None:
        return voter.principal in named
    if groups_of(voter, people) & named:
        return True
    mine = voter.identity
    return any(person(name) == mine for name in named)


def shortest(rules: Iterable[Rule]) -> timedelta | None:
    """How long the waiting lasts at most."""
    return min((rule.expires for rule in rules if rule.expires is not None), default=None)


def unknown(rules: Iterable[Rule], requester: Requester) -> Rule | None:
    """The rule under which a deploy is refused because nobody knows who is behind it."""
    if not requester.is_unknown:
        return None
    return next((rule for rule in rules if rule.unknown_requester == REFUSE), None)


def may(rule: Rule) -> str:
    """Who may approve, in words."""
    named = dict.fromkeys((*rule.members, *rule.required))
    return ", ".join(named) if rule.members else "whoever has the right approve there"


def told(rule: Rule) -> str:
    """The rule in words, for whoever plans a deploy."""
    of = f" of {', '.join(rule.members)}" if rule.members else ""
    also = "".join(f", and one of {group}" for group in rule.required)
    return f"{rule.name}: {rule.quorum}{of}{also}"


def dump(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """As JSON, for the order and the environment's row."""
    return [
        {
            "name": rule.name,
            "quorum": rule.quorum,
            "from": list(rule.members),
            "required": list(rule.required),
            "expires": rule.expires.total_seconds() if rule.expires is not None else None,
            "chat": list(rule.chat),
            "unknown_requester": rule.unknown_requester,
        }
        for rule in rules
    ]


def load(body: Iterable[Mapping[str, Any]] | None) -> tuple[Rule, ...]:
    """From JSON; what an older release did not write is no rule."""
    return tuple(
        Rule(
            name=one["name"],
            quorum=one["quorum"],
            members=tuple(one["from"]),
            required=tuple(one["required"]),
            expires=timedelta(seconds=one["expires"]) if one["expires"] is not None else None,
            chat=tuple(one["chat"]),
            unknown_requester=one["unknown_requester"],
        )
        for one in body or ()
    )


def dump_requester(requester: Requester) -> dict[str, Any]:
    """As JSON, for the deploy's row."""
    return {
        "principal": requester.principal,
        "login": requester.login,
        "acts_for": requester.acts_for,
        "automatic": requester.is_automatic,
        "nobodys": requester.is_nobodys,
    }


def load_requester(body: Mapping[str, Any] | None, principal: str) -> Requester:
    """From the row; of one that was accepted before there were approvals the principal alone."""
    if not body:
        return Requester(principal, principal)
    asked = Requester(body["principal"], body["login"], body["acts_for"], body["automatic"])
    return replace(asked, is_nobodys=body.get("nobodys", False))
