"""Promotion: which evidence a version needs from other environments before it may go to one."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

ALL = "all"
ANY = "any"


@dataclass(frozen=True)
class Rule:
    """What is asked of the sources before a version may be deployed.

    Attributes:
        sources: Environments in which it has to run.
        match: Whether in all of them or in any one.
        share: Percent of an application's targets in a source that have to run it.
        soak: How long they have to have run it without a break.
        max_age: How old its last success there may be; None: as old as it is.
        targets: The application's targets by source, filled in when a deploy is accepted.
    """

    sources: tuple[str, ...]
    match: str = ALL
    share: int = 100
    soak: timedelta = timedelta(0)
    max_age: timedelta | None = None
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __hash__(self) -> int:
        """By what the rule asks; the targets follow from it and the application."""
        return hash((self.sources, self.match, self.share, self.soak, self.max_age))


@dataclass(frozen=True)
class Run:
    """A version on one target of a source.

    `since`: from when on it has run there without a break; `proven_at`: its last success;
    `deploy` brought it.
    """

    environment: str
    target: str
    version: str
    sha256: str | None
    since: datetime
    proven_at: datetime
    deploy: str


@dataclass(frozen=True)
class Evidence:
    """What the sources say of a version.

    Attributes:
        missing: What is lacking, in words; empty if nothing but time is.
        ripe_at: When it has run there for long enough.
        since: From when on it counts.
        run: The newest run it rests on.
    """

    missing: tuple[str, ...]
    ripe_at: datetime | None = None
    since: datetime | None = None
    run: Run | None = None


def judge(
    rule: Rule, runs: Iterable[Run], *, version: str, sha256: str | None, at: datetime
) -> Evidence:
    """Whether a version, with this digest where one is given, may go on.

    Args:
        rule: What is asked.
        runs: What runs in the sources, of the application alone.
        version: Of which version.
        sha256: The digest it must have there; None: any, but one.
        at: The instant of the question.
    """
    # What runs where this rule does not look is no evidence for it, nor against it.
    mine = [run for run in runs if run.version == version and _counts(rule, run)]
    if sha256 is not None:
        mine = [run for run in mine if run.sha256 in (sha256, None)]
    found = [_of_source(rule, name, mine, at) for name in rule.sources]
    if rule.match == ANY:
        return _best(found)
    if any(one.missing for one in found):
        return Evidence(tuple(words for one in found for words in one.missing))
    whole = _joined(found)
    digests = {run.sha256 for run in mine}
    if len(digests) > 1:
        return Evidence((f"{version} has not one digest in {', '.join(rule.sources)}",))
    return whole


def _counts(rule: Rule, run: Run) -> bool:
    is_source = run.environment in rule.sources
    return is_source and run.target in rule.targets.get(run.environment, ())


def _of_source(rule: Rule, source: str, mine: Sequence[Run], at: datetime) -> Evidence:
    targets = rule.targets.get(source, ())
    here = [run for run in mine if run.environment == source and run.target in targets]
    if not targets:
        return Evidence((f"the application has no targets in {source}",))
    wanted = max(1, math.ceil(len(targets) * rule.share / 100))
    if len(here) < wanted:
        words = f"runs on {len(here)} of {len(targets)} targets in {source}, {wanted} are asked for"
        return Evidence((words,))
    if len({run.sha256 for run in here}) > 1:
        return Evidence((f"has not one digest in {source}",))
    newest = max(here, key=lambda run: (run.proven_at, run.deploy))
    if rule.max_age is not None and at - newest.proven_at > rule.max_age:
        when = newest.proven_at.isoformat()
        return Evidence((f"its last success in {source}, {when}, is older than {rule.max_age}",))
    since = sorted(run.since for run in here)[wanted - 1]
    return Evidence((), since + rule.soak, since, newest)


def _best(found: Sequence[Evidence]) -> Evidence:
    """The source that lets it go on first."""
    good = [one for one in found if not one.missing]
    if not good:
        return Evidence(tuple(words for one in found for words in one.missing))
    return min(good, key=_ripeness)


def _ripeness(found: Evidence) -> datetime:
    if found.ripe_at is None:
        raise ValueError("what is lacking is never ripe")
    return found.ripe_at


def _joined(found: Sequence[Evidence]) -> Evidence:
    """All of them together: the last to be ripe decides."""
    last = max(found, key=_ripeness)
    runs = [one.run for one in found if one.run is not None]
    newest = max(runs, key=lambda run: (run.proven_at, run.deploy), default=None)
    return replace(last, run=newest)


def closed_circles(rules: Mapping[str, Rule | None]) -> dict[str, tuple[str, ...]]:
    """Environments no version can ever come to: what their rules ask for waits for them.

    Args:
        rules: The rule of every environment; None: any version may come.

    Returns:
        For each of them the sources that can never prove anything.
    """
    reached: set[str] = set()
    while True:
        more = {name for name, rule in rules.items() if _may_be_reached(rule, reached)} - reached
        if not more:
            break
        reached |= more
    return {
        name: tuple(source for source in rule.sources if source not in reached)
        for name, rule in rules.items()
        if rule is not None and name not in reached
    }


def _may_be_reached(rule: Rule | None, reached: set[str]) -> bool:
    if rule is None:
        return True
    there = [source in reached for source in rule.sources]
    return any(there) if rule.match == ANY else all(there)


def dump(rule: Rule | None) -> dict[str, Any] | None:
    """As JSON; durations in seconds."""
    if rule is None:
        return None
    return {
        "from": list(rule.sources),
        "match": rule.match,
        "share": rule.share,
        "soak": rule.soak.total_seconds(),
        "max_age": rule.max_age.total_seconds() if rule.max_age is not None else None,
        "targets": {name: list(targets) for name, targets in sorted(rule.targets.items())},
    }


def load(body: Mapping[str, Any] | None) -> Rule | None:
    """Read what `dump` wrote."""
    if not body:
        return None
    age = body.get("max_age")
    return Rule(
        sources=tuple(body["from"]),
        match=body["match"],
        share=body["share"],
        soak=timedelta(seconds=body["soak"]),
        max_age=timedelta(seconds=age) if age is not None else None,
        targets={name: tuple(found) for name, found in body.get("targets", {}).items()},
    )
