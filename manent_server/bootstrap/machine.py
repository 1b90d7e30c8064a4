"""What `manent-server doctor` looks at on this machine: folders, disks and hook processes."""

import os
import shutil
import ssl
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from manent_server.domain import checkup
from manent_server.domain.checkup import Finding
from manent_server.domain.errors import ConfigurationError
from manent_server.plugins.runner import HookCall, HookEnd, Runner
from manent_server.settings import Settings

_PATIENCE: Final = timedelta(seconds=10)
# A whole plugin: it answers its first message with a result.
_PROBE: Final = (
    "import os;os.read(int(os.environ['MANENT_PROTOCOL_IN']),1);"
    "os.write(int(os.environ['MANENT_PROTOCOL_OUT']),b'{\"type\": \"result\"}\\n')"
)


def _places(settings: Settings, file: Path | None) -> dict[str, Path]:
    """The folders this machine's processes write to, by what they are for."""
    found = {"worker.workdir": settings.worker.workdir.absolute()}
    if isinstance(settings.audit.file, Path):
        found["audit.file"] = settings.audit.file.absolute().parent
    if file is not None:
        found["database.url"] = file.parent
    return found


def folders(settings: Settings, file: Path | None) -> Finding:
    """Whether they can be written to; one that does not exist yet can be made."""
    for key, folder in _places(settings, file).items():
        bad = _fault(key, folder)
        if bad is not None:
            return bad
    for key, one in (("audit.file", settings.audit.file), ("database.url", file)):
        if isinstance(one, Path) and one.exists() and not _is_writable(one):
            return checkup.fail(
                f"{key}: {one} cannot be written to", "let the server's user write to it"
            )
    return checkup.good("every folder can be written to")


def demand_folder(key: str, folder: Path) -> None:
    """Go on only where the folder that a key names can be written to, or made.

    Raises:
        ConfigurationError: It cannot.
    """
    bad = _fault(key, folder)
    if bad is not None:
        raise ConfigurationError(bad.words, next=bad.next)


def _fault(key: str, folder: Path) -> Finding | None:
    there = _existing(folder)
    if not there.is_dir():
        return checkup.fail(f"{key}: {there} is no folder", "take another one")
    if os.access(there, os.W_OK | os.X_OK):
        return None
    return checkup.fail(
        f"{key}: {there} cannot be written to by this user",
        "let the server's user write there, or take another folder",
    )


def _is_writable(file: Path) -> bool:
    return file.is_file() and os.access(file, os.W_OK)


def demand_certificate(settings: Settings) -> None:
    """Refuse a certificate of the listener that nobody could be shown.

    Raises:
        ConfigurationError: It or its key cannot be used.
    """
    tls = settings.server.tls
    if tls is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key)
    except OSError as error:
        raise ConfigurationError(
            f"server.tls: the certificate or its key cannot be used: {error.strerror}",
            next="give PEM files that belong together, and let the server's user read them",
        ) from error


def _existing(folder: Path) -> Path:
    """It, or what exists above it."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def disks(
    settings: Settings,
    file: Path | None,
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> Finding:
    """Whether the disks have room.

    Args:
        settings: Where things are written.
        file: The database, if it is a file.
        free: Bytes that are left where a folder lies.
    """
    there = {_existing(folder) for folder in _places(settings, file).values()}
    found = checkup.worst(checkup.disk(free(folder), str(folder)) for folder in sorted(there))
    return found or checkup.good("nothing is written here")


def hooks(settings: Settings, python: str = sys.executable) -> Finding:
    """Whether a hook can be run: zygote, guard and hook, as a worker starts them.

    Args:
        settings: What external plugins there are.
        python: The interpreter of the zygote.
    """
    with tempfile.TemporaryDirectory(prefix="manent-doctor-") as folder:
        runner = Runner(
            external=settings.plugins.external,
            state_dir=Path(folder),
            warm=1,
            processes=1,
            line_limit=settings.logs.line_limit,
            python=python,
        )
        try:
            runner.start()
            end = _probe(runner, Path(folder))
        finally:
            runner.close()
    if end.result == "succeeded" and end.is_dead:
        return checkup.good("a hook ran under its guard and ended")
    why = (end.error or {}).get("message", "its processes are not known to be dead")
    return checkup.fail(
        f"a hook ended as {end.result}: {why}",
        "look at the limits of this user (processes, memory) and for a policy that forbids exec",
    )


def _probe(runner: Runner, folder: Path) -> HookEnd:
    call = HookCall(
        attempt_id=f"doctor{os.getpid()}",
        plugin="doctor",
        hook="deploy",
        context={"workdir": str(folder)},
        timeout=_PATIENCE,
        kill_grace=timedelta(seconds=1),
        lease_until=None,
        lock_file=folder / "lock",
        external=(sys.executable, "-S", "-P", "-c", _PROBE),
    )
    with runner.place():
        return runner.call(call)
