"""What answers say: every field listed, anything else left out before it is sent."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

When = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]


class Shape(BaseModel):
    """One object of an answer."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class Named(Shape):
    """A deploy referred to, with the version it brought."""

    deploy: str
    version: str


class Cancellation(Shape):
    """Who asked a deploy to stop."""

    requested_at: When | None = None
    by: str | None = None
    rollback: bool = False
    reason: str | None = None


class Failure(Shape):
    """Why a deploy or a step failed."""

    code: str | None = None
    step: str | None = None
    message: str | None = None


class Question(Shape):
    """What a deploy asks a person, and what was answered last."""

    topic: str
    steps: list[str] = []
    open: list[str] = []
    detail: str
    asked_at: When | None = None
    answer: str | None = None
    answered_by: str | None = None
    answered_at: When | None = None
    reason: str | None = None


class ApprovalOfDeploy(Shape):
    """How far the approval of a deploy came: resolving, asked, given, bypassed or passed."""

    stage: str
    digest: str | None = None
    rules: list[str] = []
    bypassed_by: str | None = None
    reason: str | None = None


class Instant(Shape):
    """The schedule that asked for a deploy, and the instant it was asked for."""

    name: str
    at: When


class Deploy(Shape):
    """One deploy."""

    id: str
    number: int
    application: str
    environment: str
    version: str | None
    kind: str
    state: str
    phase: str | None = None
    outcome: str | None = None
    position: int | None = None
    url: str | None = None
    reason: str | None = None
    requested_by: str | None = None
    requested_at: When | None = None
    started_at: When | None = None
    ended_at: When | None = None
    sha256: str | None = None
    priority: int | None = None
    sequence: int | None = None
    not_before: When | None = None
    not_after: When | None = None
    deadline_at: When | None = None
    root: str | None = None
    rerun_of: str | None = None
    rerun_from: str | None = None
    pass_: int | None = Field(default=None, alias="pass")
    dispatch: int | None = None
    epoch: int | None = None
    executor: str | None = None
    workflow_version: str | None = None
    rollback_to: Named | None = None
    promoted_from: str | None = None
    cancel: Cancellation | None = None
    question: Question | None = None
    approval: ApprovalOfDeploy | None = None
    error: Failure | None = None
    superseded_by: str | None = None
    schedule: Instant | None = None
    supersedes: list[str] = []
    collision: str | None = None
    override: list[str] = []
    warnings: list[Any] = []
    links: dict[str, str] | None = None
    changes: list[dict[str, Any]] | None = None
    plugin: str | None = None
    targets: list[str] = []


class Step(Shape):
    """One step of a deploy's plan."""

    step: str
    hook: str | None = None
    target: str | None = None
    wave: int | None = None
    pass_: int | None = Field(default=None, alias="pass")
    state: str
    attempts: int = 0
    started_at: When | None = None
    next_try_at: When | None = None
    ended_at: When | None = None
    error: dict[str, Any] | None = None
    outputs: dict[str, Any] | None = None
    carried_from: str | None = None


class RerunPlan(Shape):
    """What a rerun would take over from an ended deploy, and what it would do again."""

    of: str
    root: str
    pass_: int = Field(alias="pass")
    application: str
    environment: str
    version: str
    kind: str
    from_: str = Field(alias="from")
    carried: list[str] = []
    again: list[str] = []


class Attempt(Shape):
    """One run of a hook."""

    step: str
    pass_: int | None = Field(default=None, alias="pass")
    attempt: int
    hook: str | None = None
    target: str | None = None
    epoch: int | None = None
    executor: str | None = None
    handed_out_at: When | None = None
    lease_until: When | None = None
    ended_at: When | None = None
    result: str | None = None
    resolved: str | None = None
    error: dict[str, Any] | None = None
    outputs: dict[str, Any] | None = None


class LogLine(Shape):
    """One line of a deploy's log."""

    sequence: int
    at: When | None = None
    step: str | None = None
    attempt: int | None = None
    stream: str | None = None
    level: str | None = None
    text: str
    executor: str | None = None


class ClosedGate(Shape):
    """One reason why a deploy does not start."""

    gate: str
    closed_since: When | None = None
    opens_at: When | None = None
    opened_by: str | None = None
    command: str | None = None
    detail: str | None = None


class BlockedBy(Shape):
    """The deploy that holds the place."""

    id: str
    executor: str | None = None
    alive: bool | None = None


class Workers(Shape):
    """Who could run it."""

    pool: str | None = None
    alive: list[str] = []
    lacking: list[str] = []


class Explanation(Shape):
    """Why a deploy is where it is."""

    id: str
    state: str
    phase: str | None = None
    summary: str
    gates: list[ClosedGate] = []
    position: int | None = None
    ahead: list[str] = []
    blocked_by: BlockedBy | None = None
    workers: Workers | None = None


class InventoryRow(Shape):
    """What runs on one target."""

    application: str
    environment: str
    target: str
    version: str | None = None
    sha256: str | None = None
    configuration: str | None = None
    since: When | None = None
    deploy: str | None = None
    state: str


class Slot(Shape):
    """One place in an environment and the deploy that holds it."""

    application: str
    deploy: str
    number: int | None = None
    version: str | None = None
    phase: str | None = None
    steps: list[str] = []
    worker: str | None = None
    since: When | None = None


class Worker(Shape):
    """One worker, briefly."""

    id: str
    alive: bool
    draining: bool | None = None
    heartbeat_at: When | None = None
    pools: list[str] = []
    plugins: list[str] = []
    running: int = 0


class Application(Shape):
    """One application and the environments it may go to."""

    name: str
    environments: list[str] = []


class Mark(Shape):
    """One lock, freeze, hold, veto or stop."""

    id: str
    sort: str | None = None
    application: str | None = None
    environment: str | None = None
    version: str | None = None
    reason: str | None = None
    owner: str | None = None
    created_at: When | None = None
    starts_at: When | None = None
    expires_at: When | None = None
    automatic: bool = False
    """manent set it, because of the end of `deploy`."""
    deploy: str | None = None
    lifted_at: When | None = None
    command: str | None = None  # what lifts it


class EnvironmentSummary(Shape):
    """One environment in the list."""

    name: str
    tier: str | None = None
    pool: str | None = None
    concurrency: int | None = None


class Environment(EnvironmentSummary):
    """One environment: who runs there, who waits, what is locked, who could work."""

    slots: list[Slot] = []
    queue: list[Deploy] = []
    locks: list[Mark] = []
    gates: list[ClosedGate] = []
    """What is closed there for some application."""
    planned: list[Mark] = []  # freezes that are yet to begin
    last: Deploy | None = None
    workers: list[Worker] = []


class ServerVersion(Shape):
    """What answers here."""

    version: str
    workflow_version: str | None = None
    minimum_client: str


class Deploys(Shape):
    """A page of deploys, newest first."""

    items: list[Deploy]
    next: str | None = None


class Steps(Shape):
    """The steps of a deploy in the order of its plan."""

    items: list[Step]
    next: str | None = None


class Attempts(Shape):
    """The attempts of a deploy in the order they were handed out."""

    items: list[Attempt]
    next: str | None = None


class LogPage(Shape):
    """Lines of a log; `next` is the `after` of the following page."""

    items: list[LogLine]
    next: int
    ended: bool


class InventoryRows(Shape):
    """The inventory, a row for each target."""

    items: list[InventoryRow]
    next: str | None = None


class Environments(Shape):
    """All environments."""

    items: list[EnvironmentSummary]
    next: str | None = None


class Applications(Shape):
    """All applications."""

    items: list[Application]
    next: str | None = None


class Marks(Shape):
    """Those that bind now or will."""

    items: list[Mark]
    next: str | None = None


class Finding(Shape):
    """One thing wrong with a request."""

    path: str
    message: str


class ProblemBody(BaseModel):
    """A refusal, as RFC 9457 has it, and what to do next."""

    model_config = ConfigDict(extra="allow")
    type: str
    title: str
    status: int
    detail: str
    code: str
    next: str
    request_id: str
    errors: list[Finding] | None = None
