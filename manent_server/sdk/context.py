"""What a hook is given: the values of one attempt and a few things it may say."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class Channel(Protocol):
    """The way from a context to the guard of its hook."""

    def log(self, level: str, text: str) -> None:
        """Add a line to the log of the deploy."""

    def heartbeat(self, *, checkpoint: Any, progress: Any) -> None:
        """Report progress, and a checkpoint for the next attempt."""

    def is_owner(self) -> bool:
        """Whether the lease of this attempt has not ended."""

    def is_cancelled(self) -> bool:
        """Whether the hook was asked to stop."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """The local file of what is deployed.

    Attributes:
        path: Where it was fetched to; read it, never change it.
        sha256: Its digest, checked when it was fetched.
    """

    path: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Previous:
    """What the target was left with by the deploy before.

    Attributes:
        version: The version that was put in place then.
        outputs: What its `deploy` returned.
    """

    version: str | None
    outputs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Observation:
    """What `observe` saw on a target.

    Attributes:
        version: The version that runs there; None when nothing does or nobody can say.
        in_place: Whether `context.version` is in place; None when unsure.
    """

    version: str | None
    in_place: bool | None


class Log:
    """Lines for the log of the deploy, beside what the hook prints."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def info(self, text: str) -> None:
        """Say what happens."""
        self._channel.log("info", text)

    def warning(self, text: str) -> None:
        """Say what a person should look at."""
        self._channel.log("warning", text)

    def error(self, text: str) -> None:
        """Say what went wrong."""
        self._channel.log("error", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All a hook may know about its attempt.

    Attributes:
        deploy: Id of the deploy.
        kind: `deploy`, `redeploy` or `rollback`.
        application: Name of the application.
        environment: Name of the environment.
        target: Name of the target this call acts on.
        options: The target's options, as an instance of the plugin's `options` model.
        version: What must be in place when the hook returns.
        from_version: What it replaces; None when nothing is known to be there.
        artifact: The fetched artifact; None when the application has none.
        configuration: The snapshot every attempt of this deploy sees.
        secrets: Values by name; never log or return them.
        previous: What the deploy before left on this target; None at the first.
        outputs: What `deploy` returned in this deploy, for `verify` and `rollback`.
        idempotency_key: The same for every attempt of this step: hand it to what you call.
        attempt: 1 for the first run of this step, rising with each further one.
        epoch: Fencing value: a target should refuse one lower than it has seen.
        checkpoint: The newest checkpoint an earlier attempt reported; None when there is none.
        completed: Names of the steps of this deploy that are already finished.
        workdir: A directory of this attempt alone; also the current directory.
        folder: The folder the server was started in, where relative paths of options begin.
        log: Where to say what happens.
        traceparent: This attempt's place in a trace, as the header of that name; None if there
            is no trace.
    """

    deploy: str
    kind: str
    application: str
    environment: str
    target: str
    options: Any
    version: str
    from_version: str | None
    artifact: Artifact | None
    configuration: Mapping[str, Any]
    secrets: Mapping[str, str]
    previous: Previous | None
    outputs: Mapping[str, Any]
    idempotency_key: str
    attempt: int
    epoch: int
    checkpoint: Any
    completed: tuple[str, ...]
    workdir: Path
    folder: Path
    log: Log
    channel: Channel
    traceparent: str | None = None

    def heartbeat(self, checkpoint: Any = None, progress: Any = None) -> None:
        """Report progress, and a checkpoint the next attempt would be given.

        Args:
            checkpoint: JSON, at most 64 KiB; None leaves the one before in place.
            progress: JSON shown to people, e.g. `{"done": 3, "of": 8}`.
        """
        self.channel.heartbeat(checkpoint=checkpoint, progress=progress)

    def still_owner(self) -> bool:
        """Whether this attempt may still act; ask before what cannot be undone.

        Answered from the lease on this machine, without asking anybody.
        """
        return self.channel.is_owner()

    @property
    def cancelled(self) -> bool:
        """Whether the hook was asked to stop; it is killed when its grace is over."""
        return self.channel.is_cancelled()
