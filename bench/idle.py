"""What a worker costs that has nothing to do."""

import time

from bench.processes import memory, resident, seconds
from bench.ratios import Goal
from bench.report import Figure, alone
from bench.sides import Bare, Ours
from bench.size import Size

_MEMORY, _PROCESSOR = Goal(150.0), Goal(5.0)
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
    of_serve = resident(ours.pid)
    return [
        alone("idle worker, memory of all its processes", "MB", occupied, _MEMORY, serve=of_serve),
        alone("idle worker, share of a core", "%", processor, _PROCESSOR),
    ]
