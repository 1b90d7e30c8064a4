"""Who a worker is: its executor row, this start of it, and where its processes live."""

import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from manent_server.engine.version import WORKFLOW_VERSION


@dataclass(frozen=True)
class Identity:
    """`executor` names the row; `incarnation` this start; the rest says where it runs, as what."""

    executor: str
    incarnation: str
    hostname: str
    boot: str
    pid_namespace: str
    version: str = WORKFLOW_VERSION

    @property
    def engine_id(self) -> str:
        """The id the engine knows this start by: an orphaned dequeue names its incarnation."""
        return f"{self.executor}:{self.incarnation}"


def identify(executor: str, *, version: str = WORKFLOW_VERSION) -> Identity:
    """A new incarnation of an executor on this host, running that workflow version."""
    return Identity(
        executor=executor,
        incarnation=secrets.token_hex(8),
        hostname=socket.gethostname(),
        boot=Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        pid_namespace=str(Path("/proc/self/ns/pid").readlink()),
        version=version,
    )
