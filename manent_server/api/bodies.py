"""What requests may say: bodies and query parameters, every unknown field refused."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from manent_server.api.fields import (
    After,
    Count,
    Digest,
    Instant,
    Limit,
    Link,
    LogLimit,
    Name,
    Priority,
    Reason,
    Sequence,
    SortName,
    Span,
    StepName,
    Text,
    UpperCase,
    Version,
)

StateName = Literal["DELAYED", "ENQUEUED", "PENDING", "SUCCESS", "ERROR", "CANCELLED"]
OutcomeName = Literal[
    "deployed",
    "partial",
    "failed",
    "rolled_back",
    "rollback_failed",
    "poisoned",
    "cancelled",
    "rejected",
    "expired",
    "superseded",
    "abandoned",
]

GateName = Literal["approval", "outdated", "freeze", "hold", "lock", "promotion", "soak", "window"]


class Body(BaseModel):
    """A JSON object from outside: no unknown field, no text taken for a number or back."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Parameters(BaseModel):
    """The query of a route: a closed list of parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Links(Body):
    """Where a person reads more."""

    ci: Link | None = None
    changes: Link | None = None


class Change(Body):
    """One change a version brings."""

    id: Text
    author: Text
    at: Instant


class DeployBody(Body):
    """Bring a version of an application to an environment."""

    application: Name
    environment: Name
    version: Version | None = Field(
        default=None, description="Required, except for a redeploy of what is in place."
    )
    kind: Literal["deploy", "redeploy"] = "deploy"
    sha256: Digest | None = Field(default=None, description="Digest the artifact must have.")
    reason: Reason | None = None
    not_before: Instant | None = None
    not_after: Instant | None = Field(
        default=None, description="Not started by then, it ends CANCELLED with outcome expired."
    )
    priority: Priority | None = Field(
        default=None, description="Lower goes first; 100 unless given."
    )
    sequence: Sequence | None = Field(
        default=None, description="Order of builds: a lower one is outdated by a higher."
    )
    collision: Literal["queue", "latest", "reject", "cancel_running"] | None = Field(
        default=None,
        description="When it meets another deploy of its application there; unless given, as the "
        "environment says.",
    )
    if_blocked: Literal["wait", "refuse"] | None = None
    override: Annotated[list[GateName], Field(max_length=20)] = Field(
        default=[],
        description="Gates that do not hold this deploy back. All but `outdated` need a reason.",
    )
    targets: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    links: Links | None = None
    changes: Annotated[list[Change], Field(max_length=500)] = []


class PlanBody(DeployBody):
    """A deploy as it would be asked for, and the instant whose gates are told."""

    at: Instant | None = Field(default=None, description="Default: now.")


class PromotionBody(Body):
    """Bring to one environment what runs in another."""

    application: Name
    from_: Name = Field(alias="from", description="The environment it runs in.")
    to: Name = Field(description="The environment it is to go to.")
    version: Version | None = Field(default=None, description="Default: the one that runs there.")
    reason: Reason | None = None
    override: Annotated[list[GateName], Field(max_length=20)] = Field(
        default=[], description="Gates that do not hold it back."
    )


class RollbackBody(Body):
    """Go back to the version before, or to a named one."""

    application: Name
    environment: Name
    to: Version | None = Field(default=None, description="Default: the last good version.")
    reason: Reason
    current_configuration: bool = Field(
        default=False, description="Use today's configuration, not the one of then."
    )
    veto: bool = Field(default=False, description="Keep the version that is left out of there.")


class AbandonBody(Body):
    """Give up a cancelled deploy that does not end."""

    reason: Reason
    force: bool = Field(
        default=False, description="The next deploy does not wait for what may still be at work."
    )


class RerunBody(Body):
    """Do an ended deploy again from one of its steps."""

    from_: StepName = Field(alias="from", description="The first step that is done again.")
    reason: Reason | None = None
    override: Annotated[list[GateName], Field(max_length=20)] = Field(
        default=[], description="Gates that do not hold it back."
    )


class RetryBody(Body):
    """Do a deploy again from the first step that did not succeed."""

    reason: Reason | None = None
    override: Annotated[list[GateName], Field(max_length=20)] = Field(
        default=[], description="Gates that do not hold it back."
    )


class ResolveBody(Body):
    """Answer what a deploy asks."""

    answer: Literal["succeeded", "failed", "retry", "skip", "rollback"]
    target: Name | None = Field(
        default=None, description="Answer for this target alone. Default: for all it asks about."
    )
    reason: Reason | None = None


class SkipBody(Body):
    """End a wait for time."""

    reason: Reason


class CancelBody(Body):
    """Stop a deploy."""

    rollback: bool = Field(default=False, description="Roll touched targets back as well.")
    reason: Reason | None = None


class StopBody(Body):
    """Stop everything."""

    reason: Reason
    expires_at: Instant | None = None


class LockBody(StopBody):
    """Keep deploys from starting."""

    application: Name | None = Field(default=None, description="Default: every application.")
    environment: Name | None = Field(default=None, description="Default: every environment.")


class HoldBody(LockBody):
    """Keep automation from starting deploys."""


class FreezeBody(LockBody):
    """Keep deploys from starting from an instant on that is planned."""

    starts_at: Instant | None = Field(default=None, description="Default: now.")


class VetoBody(LockBody):
    """Keep a version out."""

    version: Version


class RecoverBody(Body):
    """Take over from a lost worker."""

    executor: Text = Field(description="Its id, as in /admin/executors.")
    dry_run: bool = Field(default=False, description="Say what would be resumed, change nothing.")
    force: bool = Field(
        default=False, description="Skip every check: only when it is certain that it is down."
    )
    reason: Reason | None = None


class PruneBody(Body):
    """Delete old history."""

    dry_run: bool = Field(default=False, description="Say what would be deleted, delete nothing.")
    max_age: Span | None = Field(
        default=None, description="Instead of retention.max_age.", examples=["720h"]
    )
    keep_releases: Count | None = Field(
        default=None, description="Instead of retention.keep_releases."
    )
    explain: bool = Field(default=False, description="Name the old deploys that stay, and why.")


class ReloadBody(Body):
    """Ask every process for a reload."""

    reason: Reason | None = None


class ResendBody(Body):
    """Tell a sink again."""

    reason: Reason | None = None


class DeployQuery(Parameters):
    """Which deploys to list."""

    application: Name | None = None
    environment: Name | None = None
    version: Version | None = None
    state: Annotated[list[Annotated[StateName, UpperCase]], Field(max_length=20)] = []
    outcome: OutcomeName | None = None
    before: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        default=None, description="`next` of the page before."
    )
    limit: Limit = 50


class RerunQuery(Parameters):
    """Where a rerun would begin."""

    from_: StepName | None = Field(
        default=None,
        alias="from",
        description="The step; the first that did not succeed unless given.",
    )


class InventoryQuery(Parameters):
    """Which part of the inventory to show."""

    application: Name | None = None
    environment: Name | None = None


class MarkQuery(Parameters):
    """Which marks to list."""

    application: Name | None = Field(
        default=None, description="Those that speak of it; of every application is included."
    )
    environment: Name | None = Field(
        default=None, description="Those that speak of it; of every environment is included."
    )
    sort: Annotated[list[SortName], Field(max_length=5)] = Field(
        default=[], description="Only of these sorts."
    )


class LogQuery(Parameters):
    """Which lines of a log to read."""

    after: After = Field(default=0, description="Lines with a higher sequence only.")
    tail: After | None = Field(
        default=None, description="Begin so many lines before the end there is now."
    )
    limit: LogLimit = 500


class EventQuery(Parameters):
    """Which events to read."""

    after: After | None = Field(
        default=None,
        description="Events with a higher position only. Not given: the oldest that is kept, "
        "and of a stream the next one.",
    )
    limit: Limit = 100
    application: Name | None = None
    environment: Name | None = None


class NoticeQuery(Parameters):
    """Which notices to list."""

    state: Literal["waiting", "delivered", "dead"] | None = None
    sink: Name | None = None
    before: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        default=None, description="`next` of the page before."
    )
    limit: Limit = 50


class NoQuery(Parameters):
    """A route without parameters."""
