"""What a check of an installation found, and the rules it is judged by."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

CLOCK_NOTICED: Final = timedelta(seconds=1)
"""A difference of clocks that people notice in logs."""
CLOCK_WRONG: Final = timedelta(seconds=30)
"""One with which sign-ins fail."""
DISK_LOW: Final = 2 * 1024**3
DISK_FULL: Final = 200 * 1024**2
PUNCTUAL: Final = timedelta(minutes=1)
"""How late what is done now and then may come."""
LAG: Final = timedelta(minutes=5)
"""A receiver that is so far behind will not catch up by itself, as a rule."""


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """What one check found, in a sentence, and what to do about it."""

    level: Level
    words: str
    next: str = ""


@dataclass(frozen=True)
class HeldLease:
    """A lease as its row has it."""

    name: str
    holder: str
    until: datetime

    @property
    def executor(self) -> str:
        """The executor id of the process that holds it."""
        return self.holder.rpartition(":")[0]


def good(words: str) -> Finding:
    """Nothing to do."""
    return Finding(Level.OK, words)


def warn(words: str, then: str) -> Finding:
    """Somebody should look."""
    return Finding(Level.WARN, words, then)


def fail(words: str, then: str) -> Finding:
    """It does not work."""
    return Finding(Level.FAIL, words, then)


def worst(findings: Iterable[Finding]) -> Finding | None:
    """The gravest of them, the first among equals."""
    order = (Level.OK, Level.WARN, Level.FAIL)
    return max(findings, key=lambda one: order.index(one.level), default=None)


def clock(difference: timedelta, *, unsure: timedelta) -> Finding:
    """How far the database's clock is from this machine's.

    Args:
        difference: Database less machine, as measured.
        unsure: How far that may be off: half of the time the answer took.
    """
    seconds = difference.total_seconds()
    surely = abs(difference) - unsure
    words = f"the database's clock is {seconds:+.2f} s from this machine's"
    advice = "let both machines follow one time server (NTP)"
    if surely > CLOCK_WRONG:
        return fail(words, advice)
    return warn(words, advice) if surely > CLOCK_NOTICED else good(words)


def disk(free: int, folder: str) -> Finding:
    """Whether a disk has room for what is written there."""
    words = f"{free / 1024**3:.1f} GiB free under {folder}"
    advice = "make room: prune the history, move the folder, or enlarge the disk"
    if free < DISK_FULL:
        return fail(words, advice)
    return warn(words, advice) if free < DISK_LOW else good(words)


_PROMISES: Final = ("fsync", "synchronous_commit", "full_page_writes")


def durability(values: Mapping[str, str]) -> Finding:
    """Whether Postgres keeps what it has acknowledged.

    Args:
        values: `fsync`, `synchronous_commit` and `full_page_writes` as a session of ours has them.
    """
    off = [name for name in _PROMISES if values.get(name) == "off"]
    if off:
        return fail(
            f"{', '.join(off)} off: the database can lose commits it has acknowledged, and with "
            "them what was deployed",
            "turn it on for the server, the database and the role of database.url",
        )
    return good("the database keeps commits it has acknowledged")


def leases(
    rows: Sequence[HeldLease],
    expected: Mapping[str, timedelta],
    lost: Set[str],
    *,
    at: datetime,
    lasts: timedelta,
) -> Finding:
    """Whether each loop has somebody who runs it.

    Args:
        rows: Every lease there ever was.
        expected: The leases that some `serve` process should hold, and how long each may be
            nobody's between two rounds.
        lost: Executors that are lost.
        at: The database's clock.
        lasts: How long a lease lasts.
    """
    if not rows:
        return warn("no server has worked on this database yet", "start one: manent-server serve")
    held = {row.name: row for row in rows if row.until > at}
    # Others may be meant to last: what a prune leaves behind says when the next one is due.
    far = sorted(name for name in held.keys() & expected if held[name].until - at > 2 * lasts)
    if far:
        return fail(
            f"leases that end too late: {', '.join(far)}; the database's clock was set back",
            "let a server run: it takes them over when nobody has kept them for twice their time",
        )
    last = {row.name: row.until for row in rows}
    unheld = sorted(
        name for name, rest in expected.items() if _is_missed(last.get(name), rest, at, lasts)
    )
    if unheld:
        return fail(
            f"nobody holds: {', '.join(unheld)}",
            "look whether a server runs, and into its log: manent-server serve",
        )
    dead = sorted({row.executor for row in held.values()} & lost)
    if dead:
        return warn(
            f"leases are held by {', '.join(dead)}, which is lost",
            f"look again in {2 * lasts.total_seconds():.0f} s: they end by themselves",
        )
    return good(f"each of {len(expected)} loops is held by a server")


def _is_missed(until: datetime | None, rest: timedelta, at: datetime, lasts: timedelta) -> bool:
    """Whether nobody does what a lease is for; `until` is when it last ended, or will."""
    if rest < lasts:  # whoever has it keeps it between two rounds
        return until is None or until <= at
    return until is not None and at - until > rest + PUNCTUAL


def lag(name: str, seconds: float, dead: int) -> Finding:
    """How far behind a receiver is."""
    if dead:
        return warn(
            f"{name} was not told of {dead} events for good",
            f"see to the receiver, then: POST /api/v1/sinks/{name}/resend",
        )
    if seconds > LAG.total_seconds():
        return warn(f"{name} is {seconds:.0f} s behind", "look whether the receiver answers")
    return good(f"{name} is up to date")
