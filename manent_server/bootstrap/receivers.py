"""Who chains the record, and those it is handed on to, each under a lease of its own."""

import socket
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from manent_server.engine.version import build
from manent_server.observability import siem
from manent_server.observability.audit_file import AuditFile, AuditStdout
from manent_server.observability.seal import Seal
from manent_server.observability.siem import Origin
from manent_server.observability.siem_stream import SiemStream, Trust
from manent_server.settings import Settings
from manent_server.settings.audit import FILE, SCHEME
from manent_server.settings.checks import host_and_port
from manent_server.settings.values import AuditSink
from manent_server.usecases.chain import Chainer
from manent_server.usecases.desk import Desk
from manent_server.usecases.hand_on import HandOn, Receiver
from manent_server.worker.lookout import Lookout
from manent_server.worker.loops import Job

_EVERY: Final = timedelta(milliseconds=500)


def jobs(settings: Settings, lookout: Lookout) -> list[Job]:
    """The chainer, and a job for each receiver: one that is dead keeps nobody else waiting.

    Args:
        settings: Of this process.
        lookout: Says whether there is anything to do.

    Raises:
        ConfigurationError: The key that signs cannot be used.
    """
    seal = Seal(settings.audit.key) if settings.audit.key is not None else None

    def chains(desk: Desk) -> Callable[[], object]:
        mine = Chainer(desk, seal)
        return lookout.when(lambda seen: seen.records or mine.is_due(seen.head), mine.round)

    found: dict[str, Callable[[], Receiver]] = {
        name: partial(_stream, sink) for name, sink in settings.audit.sinks.items()
    }
    file = settings.audit.file
    if file is not None:
        found[FILE] = partial(_file, file, settings.audit.file_limit)
    receivers = (_job(name, make, lookout) for name, make in found.items())
    return [Job("audit", _EVERY, chains), *receivers]


def _job(name: str, make: Callable[[], Receiver], lookout: Lookout) -> Job:
    def begin(desk: Desk) -> Callable[[], object]:
        mine = HandOn(desk, name, make())
        return lookout.when(lambda seen: not mine.has_all_to(seen.head), mine.round)

    # Sinks of notices may have the same names.
    return Job(f"outbox:audit:{name}", _EVERY, begin)


def _file(file: Path | str, limit: int) -> Receiver:
    return AuditFile(file, limit) if isinstance(file, Path) else AuditStdout()


def _stream(sink: AuditSink) -> Receiver:
    origin = Origin(socket.gethostname(), build())
    return SiemStream(
        host_and_port(sink.address.removeprefix(SCHEME)),
        Trust(sink.ca, sink.certificate, sink.key),
        lambda entry: siem.render(sink.format, entry, origin),
    )
