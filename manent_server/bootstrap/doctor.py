"""`manent-server doctor`: every check of an installation, one after the other, each within a time.

None of them changes anything but a temporary folder of its own.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from manent_server.bootstrap import machine, receivers, rota
from manent_server.bootstrap.crew import lease_length
from manent_server.bootstrap.house import House
from manent_server.domain import checkup
from manent_server.domain.checkup import Finding, Level
from manent_server.domain.errors import ManentError
from manent_server.engine.migration import library
from manent_server.settings.access import unmatched
from manent_server.store import examination, migrate
from manent_server.store.pooler import refuse_transaction_pooler
from manent_server.usecases import examine
from manent_server.worker.lookout import Lookout

PATIENCE: Final = timedelta(seconds=10)
"""How long one check may take."""
_START: Final = timedelta(seconds=60)
"""The hook processes import every plugin first."""
_LOOKS: Final = 10
_PAUSE: Final = 0.5
_LONGEST: Final = 400
_SHOWN: Final = 3
_REACH: Final = "look whether the database runs and this machine reaches it, and at database.url"


@dataclass(frozen=True)
class Check:
    """One thing to look at; where a `gate` fails those after it could only fail as well."""

    name: str
    look: Callable[[], Finding]
    patience: timedelta = PATIENCE
    is_gate: bool = False
    advice: str = "look again; if it stays so, look into the log of a server"


@dataclass(frozen=True)
class Result:
    """What one check found."""

    name: str
    finding: Finding


def checks(house: House) -> list[Check]:
    """Every check, in the order in which a person would mend things."""
    desk = house.desk(dict)
    duties = rota.rota(desk, lease_length(house.settings))
    on_postgres = house.engines.dialect == "postgresql"
    sessions = [
        Check("sessions", lambda: pooler(house), is_gate=True, advice=_REACH),
        Check("durability", lambda: checkup.durability(examination.promises(house.engines))),
    ]
    return [
        Check("configuration", lambda: configuration(house)),
        Check("plugins", lambda: plugins(house)),
        Check("folders", lambda: machine.folders(house.settings, house.engines.file)),
        Check("disk", lambda: machine.disks(house.settings, house.engines.file)),
        Check("hooks", lambda: machine.hooks(house.settings), patience=_START),
        Check("database", lambda: database(house), is_gate=True, advice=_REACH),
        *(sessions if on_postgres else []),
        Check("schema", lambda: schema(house), is_gate=True),
        Check("restore", lambda: examine.restored(desk)),
        Check("engine", lambda: examine.engine(desk)),
        Check("clock", lambda: examine.clock(desk, time.time)),
        Check("processes", lambda: examine.configuration(desk)),
        Check("leases", lambda: settled(lambda: examine.leases(desk, duties))),
        Check("workers", lambda: examine.crew(desk)),
        Check("deploys", lambda: examine.stranded(desk)),
        Check("sinks", lambda: examine.told(desk)),
        Check("audit", lambda: examine.record(desk)),
    ]


def examined(
    wanted: Sequence[Check], redact: Callable[[str], str] = lambda text: text
) -> Iterator[Result]:
    """What each check finds, as it is found; none is begun after a gate that failed.

    Args:
        wanted: The checks.
        redact: Takes out the secrets that a plugin or a driver may name.
    """
    for check in wanted:
        finding = _bounded(check)
        # First: half of a secret is not known for one.
        hidden = replace(finding, words=redact(finding.words), next=redact(finding.next))
        yield Result(check.name, _in_a_line(hidden))
        if check.is_gate and finding.level == Level.FAIL:
            return


def _in_a_line(finding: Finding) -> Finding:
    """As one line each: what others say, a plugin or a driver, may hold anything."""
    words = " ".join(finding.words.split())
    words = words if len(words) <= _LONGEST else f"{words[:_LONGEST]} ..."
    return replace(finding, words=words, next=" ".join(finding.next.split()))


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
    return checkup.fail(f"no answer within {seconds:.0f} s", check.advice)


def _tried(check: Check) -> Finding:
    try:
        return check.look()
    except ManentError as error:
        return checkup.fail(error.detail, error.next)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the check found
        words, advice = examination.said(error) or (f"{type(error).__name__}: {error}", None)
        return checkup.fail(words, advice or check.advice)


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
    """What is odd in a manent.yml that was accepted, or keeps a server from starting with it.

    Raises:
        ConfigurationError: A key, a certificate or the secret of a chat cannot be used.
    """
    receivers.jobs(house.settings, Lookout(house.store))
    house.chats.demand(house.settings)
    machine.demand_certificate(house.settings)
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
    """Whether our tables and the execution library's are of this release, and may be used."""
    if not migrate.is_current(house.engines, library=library()):
        return checkup.fail(
            "the tables are not of this release",
            "manent-server migrate, or start manent-server serve",
        )
    lacking = examination.lacking(house.engines)
    if lacking:
        return checkup.fail(
            f"the role of database.url has too few rights on {_some(lacking)}",
            "let their owner grant it what 'Keep and check the record' lists",
        )
    newer = migrate.newer(house.engines)
    if newer is not None:
        return checkup.warn(
            f"the tables are of a newer release (revision {newer})",
            "install that release here too, once the upgrade is through",
        )
    return checkup.good("the tables are of this release")


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
