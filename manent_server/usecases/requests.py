"""What people and programs ask for, as values; nothing is looked up here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from manent_server.domain.access import EVERYTHING, SERVICE, Kind
from manent_server.domain.marks import Sort
from manent_server.domain.question import Answer


@dataclass(frozen=True)
class DeployRequest:
    """Bring `version` of `application` to `environment` (None: the one that is live).

    `origin` is `request`, or the automation that asks; no caller from outside chooses it.
    """

    application: str
    environment: str
    version: str | None
    kind: str = "deploy"
    sha256: str | None = None
    reason: str | None = None
    not_before: datetime | None = None
    not_after: datetime | None = None
    priority: int | None = None
    sequence: int | None = None
    collision: str | None = None
    if_blocked: str | None = None
    origin: str = "request"
    override: Sequence[str] = ()
    targets: Sequence[str] | None = None
    links: Mapping[str, Any] | None = None
    changes: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class DoraRequest:
    """Count the deploys of whole days of a zone; by default the thirty that end today."""

    first: date | None = None
    last: date | None = None
    timezone: str = "UTC"
    application: str | None = None
    environment: str | None = None
    tier: str | None = None


@dataclass(frozen=True)
class PromotionRequest:
    """Bring to `to` what runs in `source`: the same version, the same digest.

    `version` None: the one that runs there.
    """

    application: str
    source: str
    to: str
    version: str | None = None
    reason: str | None = None
    override: Sequence[str] = ()


@dataclass(frozen=True)
class RollbackRequest:
    """Bring back what ran before, or the named older version; `veto` what is live now."""

    application: str
    environment: str
    to: str | None = None
    reason: str | None = None
    current_configuration: bool = False
    veto: bool = False


@dataclass(frozen=True)
class RerunRequest:
    """Do an ended deploy again from a step (None: from the first that did not succeed)."""

    begin: str | None = None
    reason: str | None = None
    override: Sequence[str] = ()


@dataclass(frozen=True)
class SkipRequest:
    """End a wait for time; the reason is recorded."""

    reason: str


@dataclass(frozen=True)
class RegateRequest:
    """Let a deploy that waits take the rules of today; the reason is recorded."""

    reason: str


@dataclass(frozen=True)
class CancelRequest:
    """Stop a deploy; with `rollback` bring its touched targets back."""

    rollback: bool = False
    reason: str | None = None


@dataclass(frozen=True)
class AbandonRequest:
    """Give up a cancelled deploy; with `force` nothing waits for what may still be at work."""

    reason: str
    force: bool = False


@dataclass(frozen=True)
class AnswerRequest:
    """Answer what a deploy asks; `target` None: about every step it asks about."""

    answer: Answer
    target: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class MarkRequest:
    """Keep deploys of an application, an environment, both or everything from starting.

    `version` is a veto's; `starts_at` is that of a freeze planned for later.
    """

    sort: Sort
    reason: str
    application: str | None = None
    environment: str | None = None
    version: str | None = None
    starts_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True)
class ScheduleRequest:
    """Deploy again and again: at the instants of a cron expression in a time zone.

    Exactly one of `version`, `newest` and `source` says what. `catch_up`: after an outage the
    newest missed instant fires if it is no older than that.
    """

    name: str
    application: str
    environment: str
    cron: str
    timezone: str = "UTC"
    version: str | None = None
    newest: bool = False
    source: str | None = None
    overlap: str = "skip"
    catch_up: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class DeployFilter:
    """Which deploys to list; `before` is the `next` of the page before."""

    application: str | None = None
    environment: str | None = None
    version: str | None = None
    states: Sequence[str] = ()
    outcome: str | None = None
    before: str | None = None
    limit: int = 50


@dataclass(frozen=True)
class Decision:
    """What one says to an approval: `approve`, or `reject` with a comment."""

    decision: str
    comment: str | None = None


@dataclass(frozen=True)
class ApprovalFilter:
    """Which approvals to list; `before` is the `next` of the page before."""

    application: str | None = None
    environment: str | None = None
    deploy: str | None = None
    state: str | None = None
    before: str | None = None
    limit: int = 50


@dataclass(frozen=True)
class TokenRequest:
    """A new token for a principal: a role in an area; `expires_in` None never expires.

    A `service` counts toward no quorum unless a rule names it.
    """

    name: str
    role: str
    expires_in: timedelta | None = None
    kind: Kind = SERVICE
    groups: Sequence[str] = ()
    applications: Sequence[str] = EVERYTHING
    environments: Sequence[str] = EVERYTHING


@dataclass(frozen=True)
class SignInRequest:
    """Be let in for an identity token; `rule` chooses among the trust rules it meets."""

    assertion: str
    rule: str | None = None


@dataclass(frozen=True)
class Visit:
    """Which way a request came, and from where."""

    channel: str = "api"
    address: str | None = None


@dataclass(frozen=True)
class IdempotencyKey:
    """The caller's key, where it was used and the digest of the body it came with."""

    key: str
    path: str
    body_digest: str


@dataclass(frozen=True)
class Stamp:
    """Values made outside the transaction, so that repeating it makes nothing twice."""

    id: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PruneRequest:
    """What to delete; what is None is as configured."""

    dry_run: bool = False
    max_age: timedelta | None = None
    keep_releases: int | None = None
    explain: bool = False


@dataclass(frozen=True)
class RecoverRequest:
    """Take over what a lost executor left; `force` skips every check that it is lost."""

    executor: str
    dry_run: bool = False
    force: bool = False
    reason: str | None = None


@dataclass(frozen=True)
class RestoreLook:
    """Which live deploys of a restored database to show, all if none is named.

    `observes`: their targets are asked what runs there. `lost_after`: the last id of a page of
    what the database does not know, to see the next.
    """

    deploys: Sequence[str] = ()
    observes: bool = False
    lost_after: str | None = None


@dataclass(frozen=True)
class RestoreRequest:
    """What is to become of live deploys of a restored database.

    Attributes:
        decision: `resume`, `close` or `cancel`.
        deploys: Which, by address.
        is_all: All of which nothing has been decided.
        outcome: How one that is closed ended on its targets.
        reason: For the record.
    """

    decision: str
    deploys: Sequence[str] = ()
    is_all: bool = False
    outcome: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class OpenRequest:
    """Let a restored database begin; `force`: although something is undecided, for a reason."""

    force: bool = False
    reason: str | None = None
