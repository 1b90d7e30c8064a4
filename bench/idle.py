"""What a worker costs that has nothing to do."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from bench.ratios import Goal
from bench.report import Figure, alone
from bench.sides import Bare, Ours
from bench.size import Size

_MEMORY, _PROCESSOR = Goal(150.0), Goal(5.0)
_TICKS = os.sysconf("SC_CLK_TCK")
_SLICES = 4


def of_both(ours: Ours, bare: Bare, size: Size) -> list[Figure]:
    """Memory and processor time after all the work before, of both at the same time."""
    time.sleep(size.idle / _SLICES)
    shares: list[tuple[float, float]] = []
    for _ in range(_SLICES):
        before = seconds(ours.pid), seconds(bare.pid)
        began = time.monotonic()
        time.sleep(size.idle / _SLICES)
        took = time.monotonic() - began
        after = seconds(ours.pid), seconds(bare.pid)
        shares.append(((after[0] - before[0]) / took * 100, (after[1] - before[1]) / took * 100))
    processor = [[each[side] for each in shares] for side in (0, 1)]
    occupied = [[memory(ours.pid)], [memory(bare.pid)]]
    resident = _resident(ours.pid)
    return [
        alone("idle worker, memory of all its processes", "MB", occupied, _MEMORY, serve=resident),
        alone("idle worker, share of a core", "%", processor, _PROCESSOR),
    ]


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


def _resident(pid: int) -> float:
    return _kilobytes(pid, "status", "VmRSS:") / 1000


def _kilobytes(pid: int, file: str, name: str) -> int:
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
