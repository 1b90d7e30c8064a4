"""What the answer of a plan says."""

from pydantic import Field

from manent_server.api.shapes import BlockedBy, ClosedGate, Shape, When


class PlannedVersion(Shape):
    """Which version goes and which comes."""

    from_: str | None = Field(default=None, alias="from")
    to: str


class PlannedChange(Shape):
    """One key of the configuration that differs; values are not told."""

    key: str
    change: str


class PlannedTarget(PlannedVersion):
    """What a target runs and what it would."""

    target: str
    state: str


class Refusal(Shape):
    """Why a deploy would not be accepted."""

    code: str
    detail: str
    next: str


class PlannedPlace(Shape):
    """The place it would have in the queue."""

    position: int
    ahead: list[str]
    blocked_by: BlockedBy | None = None


class Plan(Shape):
    """What a deploy would do and meet."""

    application: str
    environment: str
    kind: str
    at: When
    version: PlannedVersion
    sha256: str | None = None
    configuration: list[PlannedChange]
    waves: list[list[str]]
    targets: list[PlannedTarget]
    gates: list[ClosedGate]
    passed: list[str]
    approvals: list[str]
    refusal: Refusal | None = None
    queue: PlannedPlace
    changes: bool
