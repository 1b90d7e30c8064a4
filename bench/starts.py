"""The command line's start beside Python's own, in the same virtual environment."""

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.ratios import Goal, Pair, interleave
from bench.report import Figure, ratio
from bench.sides import Ours
from bench.size import Size
from tests.rig.serve import BIN, path_environment

_VERSION, _LIST = Goal(4.0), Goal(10.0)


def of_the_client(ours: Ours, folder: Path, size: Size) -> list[Figure]:
    """`manent --version` and `manent list`, each beside `python -c pass`."""
    folder.mkdir()
    environ = path_environment(folder)
    environ |= {"MANENT_URL": ours.rig.url, "MANENT_TOKEN": ours.rig.token}
    commands = (
        _timed([str(BIN / "python"), "-c", "pass"], environ),
        _timed([str(BIN / "manent"), "--version"], environ),
        _timed([str(BIN / "manent"), "list", "--limit", "5"], environ),
    )
    for command in commands:
        command()
    rounds = interleave(size.starts, *commands)
    return [
        ratio("manent --version", "ms", [Pair(each[1], each[0]) for each in rounds], _VERSION),
        ratio("manent list", "ms", [Pair(each[2], each[0]) for each in rounds], _LIST),
    ]


def _timed(command: list[str], environ: Mapping[str, str]) -> Callable[[], float]:
    def once() -> float:
        began = time.perf_counter()
        subprocess.run(command, env=environ, check=True, capture_output=True)
        return (time.perf_counter() - began) * 1000

    return once
