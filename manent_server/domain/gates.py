"""Every reason a deploy may not run now: one pure function of facts.

Admission, the prelude, the check between waves, plans and `explain` all ask here, so they cannot
disagree.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from manent_server.domain import approval, awaiting, promotion, windows
from manent_server.domain.awaiting import Stage, Standing
from manent_server.domain.deploy import Kind, Phase
from manent_server.domain.marks import Mark, Sort
from manent_server.domain.promotion import Rule, Run
from manent_server.domain.rules import REFUSE, WAVE, Rules

OUTDATED = "outdated"
PROMOTION = "promotion"
SOAK = "soak"
APPROVAL = approval.GATE
OVERRIDABLE = (APPROVAL, OUTDATED, "freeze", "hold", "lock", PROMOTION, SOAK, "window")
"""What the person who asks for a deploy may pass by name; a stop and a veto are lifted instead."""


@dataclass(frozen=True)
class Asked:
    """What the gates need to know of a deploy.

    `is_automatic`: no person or pipeline asked for it. `override`: the gates that are passed on
    its requester's word. `is_return`: a rollback to what ran before, not to a named version.
    `promotion`: the rule it was accepted under; `sha256` the digest it is pinned to;
    `approval`: where its approval stands, None if nobody is asked; `id` is None before it has one.
    """

    application: str
    environment: str
    kind: Kind
    version: str
    requested_at: datetime
    not_before: datetime | None = None
    not_after: datetime | None = None
    is_automatic: bool = False
    is_return: bool = False
    override: frozenset[str] = frozenset()
    sha256: str | None = None
    promotion: Rule | None = None
    approval: Standing | None = None
    id: str | None = None


@dataclass(frozen=True)
class Facts:
    """What is true of an environment at an instant."""

    at: datetime
    rules: Rules = field(default_factory=Rules)
    marks: Sequence[Mark] = ()
    runs: Mapping[str, Sequence[Run]] = field(default_factory=dict)
    """By application, what runs where the rules of its deploys look."""

    @cached_property
    def shut(self) -> windows.Shut | None:
        """What the windows say; looked up once, however many deploys are judged."""
        return windows.shut(self.rules.windows, at=self.at) if self.rules.windows else None


@dataclass(frozen=True)
class ClosedGate:
    """One reason: which gate, since when, when or by whom it opens.

    `is_final`: neither time nor a person's decision on this deploy opens it, so a request that
    meets it is refused. `look_at`: when time will have done something other than open it.
    """

    gate: str
    phase: Phase
    closed_since: datetime | None
    opens_at: datetime | None
    opened_by: str
    command: str | None
    detail: str
    is_final: bool = False
    look_at: datetime | None = None


@dataclass(frozen=True)
class Judgement:
    """What the gates say of a deploy.

    Attributes:
        closed: Those that keep it, the one that decides the phase first.
        passed: Those that would have kept it, had it not been let through.
    """

    closed: tuple[ClosedGate, ...]
    passed: tuple[ClosedGate, ...] = ()


def judge(asked: Asked, facts: Facts) -> Judgement:
    """Which gates are closed for a deploy that has not begun."""
    found = _all(asked, facts)
    through = let_through(asked, facts.rules)
    return Judgement(
        tuple(gate for gate in found if gate.gate not in through),
        tuple(gate for gate in found if gate.gate in through),
    )


def closed(asked: Asked, facts: Facts) -> tuple[ClosedGate, ...]:
    """The gates that are closed now, the one that decides the phase first."""
    return judge(asked, facts).closed


def stopping(asked: Asked, facts: Facts) -> tuple[ClosedGate, ...]:
    """What keeps a running deploy from its next wave: a stop, locks set since it started.

    Which those are needs no comparison of instants: a lock that was in force at the start would
    have kept it from starting. Automatic ones speak of the end of another deploy. Freezes do so
    where the environment's `freeze_running` is `wave`; windows are for beginnings alone.
    """
    sorts = {Sort.STOP, Sort.LOCK}
    if facts.rules.freeze_running == WAVE:
        sorts.add(Sort.FREEZE)
    through = let_through(asked, facts.rules)
    return tuple(
        _marked(mark)
        for mark in _binding(asked, facts)
        if mark.sort in sorts and mark.sort not in through and not mark.automatic
    )


def is_expired(asked: Asked, *, at: datetime) -> bool:
    """Whether it was not to be started any more."""
    return asked.not_after is not None and asked.not_after <= at


def opens_at(gates: Sequence[ClosedGate]) -> datetime | None:
    """When time alone may have opened one of them: the earliest instant worth a look."""
    instants = [gate.opens_at for gate in gates if gate.opens_at is not None]
    return min(instants, default=None)


def looks_at(gates: Sequence[ClosedGate]) -> datetime | None:
    """The earliest instant at which time alone may have changed something about them."""
    instants = [gate.look_at for gate in gates] + [opens_at(gates)]
    return min((one for one in instants if one is not None), default=None)


def let_through(asked: Asked, rules: Rules) -> frozenset[str]:
    """Gates that are passed: on the requester's word, or because it takes a bad version away."""
    return asked.override | frozenset(rules.rollback_passes if asked.is_return else ())


def _all(asked: Asked, facts: Facts) -> list[ClosedGate]:
    found = [*unapproved(asked.approval, asked.id)]
    found += timer(asked.not_before, at=facts.at, since=asked.requested_at)
    found += [_marked(mark) for mark in _binding(asked, facts)]
    if facts.shut is not None:
        found.append(_outside(asked.environment, facts.shut))
    if asked.promotion is not None:
        found += _unproven(asked, asked.promotion, facts)
    return found


def unapproved(standing: Standing | None, deploy: str | None) -> tuple[ClosedGate, ...]:
    """The gate that people open; before all others: it says what somebody has to do."""
    if standing is None or standing.stage == Stage.GIVEN:
        return ()
    is_asked = standing.stage == Stage.ASKED
    rules = [ask.rule for ask in standing.asks if not ask.verdict.is_met]
    who = "; ".join(dict.fromkeys(approval.may(rule) for rule in rules))
    return (
        ClosedGate(
            gate=APPROVAL,
            phase=Phase.AWAITING_APPROVAL if is_asked else Phase.RESOLVING,
            closed_since=standing.since,
            opens_at=None,
            opened_by=(who or "approvers") if is_asked else "a worker",
            command=f"manent approve {deploy}" if is_asked and deploy else None,
            detail=awaiting.detail(standing),
            look_at=standing.look_at,
        ),
    )


_ORDER = (Sort.STOP, Sort.VETO, Sort.LOCK, Sort.FREEZE, Sort.HOLD)


def _binding(asked: Asked, facts: Facts) -> list[Mark]:
    binding = [mark for mark in facts.marks if _binds(mark, asked, at=facts.at)]
    return sorted(binding, key=lambda mark: (_ORDER.index(mark.sort), mark.since, mark.id))


def _binds(mark: Mark, asked: Asked, *, at: datetime) -> bool:
    if not (mark.covers(asked.application, asked.environment) and mark.binds(at=at)):
        return False
    if mark.sort == Sort.HOLD:
        return asked.is_automatic
    if mark.sort == Sort.VETO:
        return mark.bans(asked.version)
    # What an automatic lock guards against is repaired by a rollback: it may pass.
    return not (mark.automatic and asked.kind == Kind.ROLLBACK)


_PHASES = {
    Sort.LOCK: Phase.LOCKED,
    Sort.FREEZE: Phase.FROZEN,
    Sort.HOLD: Phase.HELD,
    Sort.VETO: Phase.VETOED,
    Sort.STOP: Phase.STOPPED,
}
_WORDS = {
    Sort.LOCK: "is locked",
    Sort.FREEZE: "is frozen",
    Sort.HOLD: "is held back from automation",
    Sort.VETO: "is vetoed",
    Sort.STOP: "is stopped",
}


def of_environment(environment: str, facts: Facts) -> tuple[ClosedGate, ...]:
    """Gates that are closed there for some application, as one looks at the environment."""
    found = [
        _marked(mark)
        for mark in facts.marks
        if mark.environment in (None, environment) and mark.binds(at=facts.at)
    ]
    shut = facts.shut
    return (*found, *([_outside(environment, shut)] if shut is not None else []))


def _marked(mark: Mark) -> ClosedGate:
    until = f" until {_told(mark.expires_at)}" if mark.expires_at is not None else ""
    return ClosedGate(
        gate=mark.sort,
        phase=_PHASES[mark.sort],
        closed_since=mark.since,
        opens_at=mark.expires_at,
        opened_by=mark.owner,
        command=command(mark),
        detail=f"{mark.scope} {_WORDS[mark.sort]} by {mark.owner}{until}: {mark.reason}",
        is_final=mark.sort == Sort.VETO,
    )


def _told(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def command(mark: Mark) -> str:
    """What a person types to lift the mark."""
    if mark.sort == Sort.STOP:
        return "manent resume-all"
    words = [f"manent un{mark.sort}"]
    if mark.sort == Sort.VETO:
        words += [mark.application or "", mark.version or ""]
        words += ["--environment", mark.environment] if mark.environment else []
    else:
        words += [mark.environment] if mark.environment else []
        words += ["--application", mark.application] if mark.application else []
    # Others may be planned for the same place: only the one that closes the gate is meant.
    words += ["--id", mark.id] if mark.sort == Sort.FREEZE else []
    return " ".join(words)


def _outside(environment: str, shut: windows.Shut) -> ClosedGate:
    until = f" (until {_told(shut.until)})" if shut.until is not None else ""
    return ClosedGate(
        gate="window",
        phase=Phase.FROZEN,
        closed_since=shut.since,
        opens_at=shut.until,
        opened_by="time",
        command=None,
        detail=f"{environment}: {shut.why}{until}",
    )


def _unproven(asked: Asked, rule: Rule, facts: Facts) -> list[ClosedGate]:
    """Evidence that is missing closes for good; evidence that is young closes for a while."""
    runs = facts.runs.get(asked.application, ())
    found = promotion.judge(rule, runs, version=asked.version, sha256=asked.sha256, at=facts.at)
    sources = (" or " if rule.match == promotion.ANY else " and ").join(rule.sources)
    if found.missing:
        lacking = "; ".join(found.missing)
        return [
            ClosedGate(
                gate=PROMOTION,
                phase=Phase.UNPROVEN,
                closed_since=None,
                opens_at=None,
                opened_by=f"a success in {sources}",
                command=f"manent deploy {asked.application} {rule.sources[0]} {asked.version}",
                detail=f"{asked.version} is not proven for {asked.environment}: {lacking}",
                is_final=True,
            )
        ]
    if found.ripe_at is None or found.ripe_at <= facts.at:
        return []
    return [
        ClosedGate(
            gate=SOAK,
            phase=Phase.SOAKING,
            closed_since=found.since,
            opens_at=found.ripe_at,
            opened_by="time",
            command=None,
            detail=f"{asked.version} soaks in {sources} until {_told(found.ripe_at)}",
        )
    ]


def timer(
    not_before: datetime | None, *, at: datetime, since: datetime | None = None
) -> tuple[ClosedGate, ...]:
    """The gate that a deploy's own first instant is, while it lies ahead."""
    if not_before is None or not_before <= at:
        return ()
    return (_scheduled(not_before, since),)


def _scheduled(not_before: datetime, since: datetime | None) -> ClosedGate:
    return ClosedGate(
        gate="schedule",
        phase=Phase.SCHEDULED,
        closed_since=since,
        opens_at=not_before,
        opened_by="time",
        command=None,
        detail=f"not to be started before {_told(not_before)}",
    )


def stands_before(newer: Sequence[ClosedGate], older: Sequence[ClosedGate]) -> bool:
    """Whether nothing keeps the newer deploy back that does not keep the older one back as long.

    Only then does it take the older one's place: what waits for tomorrow, or is held back, must
    not push out what could run now.
    """
    return all(any(_opens_no_later(mine, theirs) for theirs in older) for mine in newer)


def _opens_no_later(mine: ClosedGate, theirs: ClosedGate) -> bool:
    if mine.gate != theirs.gate:
        return False
    if theirs.opens_at is None:
        return True
    return mine.opens_at is not None and mine.opens_at <= theirs.opens_at


def refusing(gates: Sequence[ClosedGate], *, if_blocked: str) -> tuple[ClosedGate, ...]:
    """Those for which a request is refused: the final ones, or all but an approval."""
    if if_blocked != REFUSE:
        return finally_closed(gates)
    return tuple(gate for gate in gates if gate.gate != APPROVAL)


def finally_closed(gates: Iterable[ClosedGate]) -> tuple[ClosedGate, ...]:
    """Those that nothing a request can wait for opens."""
    return tuple(gate for gate in gates if gate.is_final)
