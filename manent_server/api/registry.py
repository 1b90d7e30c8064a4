"""What answers about workers say."""

from manent_server.api.shapes import Shape, When


class Executor(Shape):
    """One worker; one that is missing from the registry has `id`, `alive`, `pending` alone."""

    id: str
    version: str | None = None
    build: str | None = None
    hostname: str | None = None
    started_at: When | None = None
    heartbeat_at: When | None = None
    registered: bool
    alive: bool
    pending: dict[str, int] | None = None
    recovered_by: str | None = None
    stopped_at: When | None = None
    draining: bool | None = None
    running: int | None = None
    oldest_step_at: When | None = None
    pools: list[str] | None = None
    plugins: list[str] | None = None
    configuration: str | None = None


class Executors(Shape):
    """Every worker; `version` is the workflow version of the process that answers."""

    version: str
    executors: list[Executor]


class Recovered(Shape):
    """One deploy of a lost worker; `why` says what keeps it from being resumed now."""

    id: str
    application: str
    environment: str
    version: str | None
    workflow_version: str | None = None
    state: str
    from_step: str
    resumable: bool
    why: str | None = None


class Recovery(Shape):
    """What was taken over from a lost worker, or in a dry run would be."""

    executor: str
    dry_run: bool
    recovered_by: str | None = None
    workflows: list[Recovered]
    unowned_seconds: float | None = None
    forced: bool = False
    reason: str | None = None
    rests_on: str | None = None


class KeptDeploy(Shape):
    """One old deploy that stays."""

    id: str
    application: str
    environment: str
    number: int
    version: str
    reason: str


class Pruned(Shape):
    """What was deleted, or in a dry run would be; `workflows` is the sum of the three kinds."""

    dry_run: bool
    max_age: str
    keep_releases: int
    deploys: int
    approvals: int
    schedule_runs: int
    workflows: int
    kept: dict[str, int]
    explained: list[KeptDeploy] | None = None


class Forgotten(Shape):
    """A worker that is no longer in the registry."""

    id: str
    forgotten: bool


class Reload(Shape):
    """What every process was asked to take up, as the files of the answering one have it.

    `reload` counts how often that was asked. `changed` and `configuration`, the digest that
    workers with the same files show then, are missing where the command line was asked `--local`.
    """

    reload: int
    file: str
    changed: list[str] | None = None
    needs_restart: list[str]
    going: list[str]
    configuration: str | None = None
    takes_effect: str
    reason: str | None = None
