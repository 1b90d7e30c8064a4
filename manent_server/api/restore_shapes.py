"""What answers about a restored database say."""

from manent_server.api.shapes import Shape, When


class Point(Shape):
    """How far an installation has come."""

    epoch: int
    audit_number: int


class Missing(Shape):
    """Numbers of the audit that the database has lost, as far as is known."""

    first: int
    last: int


class Recorded(Shape):
    """A record of the audit of after the restored point, as the file of the audit has it."""

    number: int
    at: When
    action: str
    actor: str


class Lost(Shape):
    """A deploy that was asked for after the restored point: the database does not know it."""

    id: str
    application: str | None = None
    environment: str | None = None
    version: str | None = None
    outcome: str | None = None
    records: list[Recorded]


class Seen(Shape):
    """What `observe` says of a target; `why` says why nothing.

    `version` runs there; `in_place`: whether that is the deploy's.
    """

    target: str
    version: str | None = None
    in_place: bool | None = None
    why: str | None = None


class Undecided(Shape):
    """A live deploy; `outcome` is how it ended after the restored point, by the audit's file."""

    id: str
    application: str
    environment: str
    number: int
    version: str
    kind: str
    state: str
    phase: str | None = None
    requested_by: str
    requested_at: When
    decision: str | None = None
    outcome: str | None = None
    records: list[Recorded]
    observed: list[Seen] | None = None


class Restore(Shape):
    """Whether nothing begins and why, and what is to be decided.

    `record` and `observing` say whether the audit's file was read and targets were asked, or why
    not.
    """

    fenced: bool
    why: str | None = None
    since: When | None = None
    by: str | None = None
    restored: Point | None = None
    known: Point | None = None
    missing: Missing | None = None
    record: str | None = None
    observing: str | None = None
    undecided: int
    items: list[Undecided]
    lost: list[Lost]
    lost_next: str | None = None


class RestoreDecided(Shape):
    """What was decided of which deploys, and of how many nothing yet."""

    decision: str
    deploys: list[str]
    undecided: int


class Opened(Shape):
    """The new epoch; the audit goes on at `goes_on_at`."""

    fenced: bool
    epoch: int | None = None
    missing: Missing | None = None
    goes_on_at: int | None = None
    resumed: list[str] | None = None
    undecided: list[str] | None = None
