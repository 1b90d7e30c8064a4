"""Where the approval of a deploy stands: what is asked, what was said, what is waited for."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from manent_server.domain.approval import Rule, Verdict


class Stage(StrEnum):
    """How far the approval of a deploy came.

    RESOLVING: what it would bring is being found out; ASKED: people are asked; GIVEN: everyone
    who has to agree has done so.
    """

    RESOLVING = "resolving"
    ASKED = "asked"
    GIVEN = "given"


@dataclass(frozen=True)
class Ask:
    """One rule as one deploy asks it, with what was said so far."""

    id: str
    rule: Rule
    asked_at: datetime
    expires_at: datetime | None
    verdict: Verdict


@dataclass(frozen=True)
class Standing:
    """Where the approval of a deploy stands.

    `look_at`: when time will have changed something; `asks` where they were read; `trouble`: why
    what it would bring is not found out yet; `changed`: what is another than what was asked before.
    """

    stage: Stage
    look_at: datetime | None = None
    asks: tuple[Ask, ...] = ()
    since: datetime | None = None
    trouble: str | None = None
    changed: tuple[str, ...] = ()


def standing(
    stage: str | None, look_at: datetime | None, *, since: datetime | None = None
) -> Standing | None:
    """As the row of a deploy has it; None: nobody has to agree."""
    if stage is None:
        return None
    found = Stage(stage)
    # What is being resolved is looked at by a loop of its own.
    return Standing(found, look_at if found == Stage.ASKED else None, since=since)


def is_met(asks: Sequence[Ask]) -> bool:
    """Whether every rule is met."""
    return all(ask.verdict.is_met for ask in asks)


def reminder(asked_at: datetime, expires_at: datetime | None) -> datetime | None:
    """When people are reminded: once, when half of the time has passed."""
    return None if expires_at is None else asked_at + (expires_at - asked_at) / 2


@dataclass(frozen=True)
class Content:
    """What is approved: all of it goes into the digest.

    `configuration` has the digest of each value by its key, `artifacts` what each target gets;
    `order` is the digest of the order, the rules themselves in it.
    """

    application: str
    environment: str
    kind: str
    version: str
    order: str
    artifacts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)
    returns_to: str | None = None


def body(content: Content) -> dict[str, Any]:
    """As the JSON that is digested and kept."""
    return asdict(content)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """What is another in one content than in an earlier one, by name, never by value."""
    plain = [key for key in after if key not in ("artifacts", "configuration")]
    found = [key.replace("_", " ") for key in plain if before.get(key) != after[key]]
    for section, word in (("artifacts", "artifact of"), ("configuration", "configuration")):
        old, new = before.get(section) or {}, after[section]
        changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
        found += [f"{word} {key}" for key in changed]
    return tuple(found)


def detail(standing: Standing) -> str:
    """What is waited for, in words: who may, who did, until when the waiting lasts."""
    if standing.stage == Stage.RESOLVING:
        why = f": {standing.trouble}" if standing.trouble else ""
        return f"what is to be approved is being resolved{why}"
    open_asks = [ask for ask in standing.asks if not ask.verdict.is_met]
    if not open_asks:
        return "waits for approval"
    again = f"asked again, for these have changed: {', '.join(standing.changed)}; "
    words = "; ".join(_told(ask) for ask in open_asks)
    return again + words if standing.changed else words


def _told(ask: Ask) -> str:
    verdict = ask.verdict
    words = f"waits for approval by rule {ask.rule.name}: {' and '.join(verdict.missing)}"
    if verdict.approvers:
        words += f"; approved by {', '.join(verdict.approvers)}"
    for who, why in verdict.lapsed:
        words += f"; the approval of {who} counts no more: {why}"
    return words
