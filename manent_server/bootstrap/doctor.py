"""`manent-server doctor`: every check of an installation, one after the other, each within a time.

None of them changes anything but a temporary folder of its own.
"""

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from manent_server.bootstrap import receivers
from manent_server.bootstrap.crew import lease_length
from manent_server.bootstrap.house import House
from manent_server.domain import checkup
from manent_server.domain.checkup import Finding, Level
from manent_server.domain.errors import ManentError
from manent_server.engine.migration import library
from manent_server.plugins.runner import HookCall, HookEnd, Runner
from manent_server.settings import Settings
from manent_server.settings.access import unmatched
from manent_server.store import examination, migrate
from manent_server.store.pooler import refuse_transaction_pooler
from manent_server.usecases import examine
from manent_server.worker.jobs import jobs

PATIENCE: Final = timedelta(seconds=10)
"""How long one check may take."""
_START: Final = timedelta(seconds=60)
"""The hook processes import every plugin first."""
_LOOKS: Final = 10
_PAUSE: Final = 0.5

# A whole plugin: it answers its first message with a result.
_PROBE: Final = (
    "import os;os.read(int(os.environ['MANENT_PROTOCOL_IN']),1);"
    "os.write(int(os.environ['MANENT_PROTOCOL_OUT']),b'{\"type\": \"result\"}\\n')"
)


@dataclass(frozen=True)
class Check:
    """One thing to look at; where a `gate` fails those after it could only fail as well."""

    name: str
    look: Callable[[], Finding]
    patience: timedelta = PATIENCE
    is_gate: bool = False


@dataclass(frozen=True)
class Result:
    """What one check found."""

    name: str
    finding: Finding


def checks(house: House) -> list[Check]:
    """Every check, in the order in which a person would mend things."""
    desk = house.desk(dict)
    lasts = lease_length(house.settings)
    expected = frozenset(_loops(house, lasts))
    on_postgres = house.engines.dialect == "postgresql"
    sessions = [
        Check("sessions", lambda: pooler(house), is_gate=True),
        Check("durability", lambda: checkup.durability(examination.promises(house.engines))),
    ]
    return [
        Check("configuration", lambda: configuration(house)),
        Check("plugins", lambda: plugins(house)),
        Check("folders", lambda: folders(house.settings, house.engines.file)),
        Check("disk", lambda: disks(house.settings, house.engines.file)),
        Check("hooks", lambda: hooks(house.settings), patience=_START),
        Check("database", lambda: database(house), is_gate=True),
        *(sessions if on_postgres else []),
        Check("schema", lambda: schema(house), is_gate=True),
        Check("restore", lambda: examine.restored(desk)),
        Check("engine", lambda: examine.engine(desk)),
        Check("clock", lambda: examine.clock(desk, time.time)),
        Check("processes", lambda: examine.configuration(desk)),
        Check("leases", lambda: settled(lambda: examine.leases(desk, expected, lasts))),
        Check("workers", lambda: examine.crew(desk)),
        Check("deploys", lambda: examine.stranded(desk)),
        Check("sinks", lambda: examine.told(desk)),
        Check("audit", lambda: examine.record(desk)),
    ]


def examined(wanted: Sequence[Check]) -> Iterator[Result]:
    """What each check finds, as it is found; none is begun after a gate that failed."""
    for check in wanted:
        finding = _bounded(check)
        yield Result(check.name, finding)
        if check.is_gate and finding.level == Level.FAIL:
            return


def _bounded(check: Check) -> Finding:
    """Its finding; an error is one too, and so is no answer in time."""
    found: list[Finding] = []
    # A daemon: what hangs does not keep the command from ending.
    thread = threading.Thread(target=lambda: found.append(_tried(check)), daemon=True)
    thread.start()
    thread.join(check.patience.total_seconds())
    if found:
        return found[0]
    seconds = check.patience.total_seconds()
    return checkup.fail(f"no answer within {seconds:.0f} s", "look what it waits for")


def _tried(check: Check) -> Finding:
    try:
        return check.look()
    except ManentError as error:
        return checkup.fail(error.detail, error.next)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the check found
        words = " ".join(str(error).split())[:300]
        return checkup.fail(f"{type(error).__name__}: {words}", "see the message")


def _loops(house: House, lasts: timedelta) -> Iterator[str]:
    """The leases that somebody holds at any time while servers run.

    Others end between two rounds: those of what is done once an hour.
    """
    for job in [*jobs(house.settings, house.metrics), *receivers.jobs(house.settings)]:
        if job.is_alone and not job.lets_go and job.every < lasts:
            yield job.name


def settled(look: Callable[[], Finding], pause: Callable[[float], None] = time.sleep) -> Finding:
    """What is found once it stays so: a lease may end for a moment before it is taken again.

    Args:
        look: Finds it.
        pause: Waits for seconds.
    """
    for _ in range(_LOOKS):
        found = look()
        if found.level != Level.FAIL:
            return found
        pause(_PAUSE)
    return look()


def configuration(house: House) -> Finding:
    """What is odd in a manent.yml that was accepted."""
    odd = list(unmatched(house.settings.access))
    if odd:
        return checkup.warn("; ".join(odd), f"correct {house.settings.path}")
    return checkup.good(f"{house.settings.path} is good")


def plugins(house: House) -> Finding:
    """Whether every plugin that is installed can be used."""
    broken = sorted(house.host.broken.items())
    if broken:
        words = "; ".join(f"{name} cannot be used: {why}" for name, why in broken)
        return checkup.fail(words, "install a release of it that fits, or take it away")
    return checkup.good(
        f"{len(house.host.names())} plugins: {', '.join(sorted(house.host.names()))}"
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
        there = _existing(folder)
        if not there.is_dir():
            return checkup.fail(f"{key}: {there} is no folder", "take another one")
        if not os.access(there, os.W_OK | os.X_OK):
            return checkup.fail(
                f"{key}: {there} cannot be written to by this user",
                "let the server's user write there, or take another folder",
            )
    audit = settings.audit.file
    if (
        isinstance(audit, Path)
        and audit.exists()
        and not (audit.is_file() and os.access(audit, os.W_OK))
    ):
        return checkup.fail(
            f"audit.file: {audit} cannot be written to", "let the server's user write to it"
        )
    return checkup.good("every folder can be written to")


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
        timeout=PATIENCE,
        kill_grace=timedelta(seconds=1),
        lease_until=None,
        lock_file=folder / "lock",
        external=(sys.executable, "-S", "-P", "-c", _PROBE),
    )
    with runner.place():
        return runner.call(call)


def database(house: House) -> Finding:
    """Whether it answers; a file that is not there is not made."""
    file = house.engines.file
    if file is not None and not file.exists():
        return checkup.fail(f"there is no file {file}", "manent-server migrate makes it")
    begin = time.monotonic()
    with house.engines.lone.connect() as connection:
        connection.exec_driver_sql("SELECT 1")
    took = (time.monotonic() - begin) * 1000
    return checkup.good(f"{house.engines.url} answers in {took:.0f} ms")


def pooler(house: House) -> Finding:
    """Whether a session is one's own."""
    refuse_transaction_pooler(house.engines)
    return checkup.good("no transaction pooler stands in front")


def schema(house: House) -> Finding:
    """Whether our tables and the execution library's are of this release."""
    if migrate.is_current(house.engines, library=library()):
        return checkup.good("the tables are of this release")
    return checkup.fail(
        "the tables are not of this release", "manent-server migrate, or start manent-server serve"
    )
