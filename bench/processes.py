"""What a process and everything below it have used."""

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> Iterator[int]:
    """A process and everything below it."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from tree(int(child))


def seconds(pid: int) -> float:
    """Processor time of the tree so far, what has ended and was waited for included."""
    return sum(_ticks(each) for each in tree(pid)) / _TICKS


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    # utime, stime; those of ended children too, which `tree` no longer finds
    return sum(map(int, fields[11:15]))


def memory(pid: int) -> float:
    """Megabytes of the tree; what processes share is counted once (PSS)."""
    return sum(_kilobytes(each, "smaps_rollup", "Pss:") for each in tree(pid)) / 1000


def resident(pid: int) -> float:
    """Megabytes of one process, with what it shares."""
    return _kilobytes(pid, "status", "VmRSS:") / 1000


def _kilobytes(pid: int, file: str, name: str) -> int:
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
