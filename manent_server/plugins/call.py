"""What a worker tells a guard about the one hook it is to run."""

from dataclasses import asdict, dataclass
from typing import Any

from manent_server.plugins import protocol


@dataclass(frozen=True, slots=True)
class GuardCall:
    """The order for one guard; what only the hook needs follows it as a line of its own.

    Attributes:
        attempt: Id of the attempt.
        plugin: Name of the plugin.
        hook: Name of the hook.
        external: Argument list of an external plugin; None for one in Python.
        lease_until: CLOCK_BOOTTIME second at which the lease ends; None for no end.
        timeout: Seconds the hook may take.
        grace: Seconds between SIGTERM and SIGKILL.
        lock_file: Absolute path of the attempt's lock file.
        workdir: Absolute path of the hook's current directory.
        line_limit: Bytes of a line of output that are kept.
    """

    attempt: str
    plugin: str
    hook: str
    external: list[str] | None
    lease_until: float | None
    timeout: float
    grace: float
    lock_file: str
    workdir: str
    line_limit: int

    def line(self) -> bytes:
        """As a line of the pipe."""
        return protocol.encode({"type": "call", **asdict(self)})

    @classmethod
    def of(cls, message: dict[str, Any]) -> "GuardCall":
        """From a line of the pipe."""
        return cls(**{name: value for name, value in message.items() if name != "type"})
