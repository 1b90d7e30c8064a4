"""What the figures were measured on: numbers to print beside them, without goals."""

import os
import platform
import time
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from bench.sides import Ours

_BLOCK = b"\0" * 8192


def facts(ours: Ours, folder: Path) -> dict[str, Any]:
    """The machine, the versions and the database's settings."""
    settings = ("server_version", "fsync", "synchronous_commit", "full_page_writes")
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "manent": metadata.version("manent"),
        "dbos": metadata.version("dbos"),
        "postgres": {name: ours.rows.query(f"SHOW {name}")[0][0] for name in settings},
        "select_1_ms": ours.probe() * 1000,
        "fdatasync_ms": _fdatasync(folder / "block") * 1000,
    }


def _fdatasync(path: Path) -> float:
    taken = []
    with path.open("wb", buffering=0) as file:
        for _ in range(50):
            began = time.perf_counter()
            file.write(_BLOCK)
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    return median(taken)
