"""`make bench [BENCH_JSON=file]`: all figures in one run, a table and a JSON file.

`python -m bench --quick` measures little, to see that it works; `--only NAME` (more than once)
measures some: deploys, throughput, hook, lines, start, idle, waiting, restart,
audit, audited, takeover, pending, list, prune.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import (
    audit,
    audited,
    deploys,
    history,
    hooks,
    idle,
    lines,
    listing,
    machine,
    pruning,
    report,
    restart,
    starts,
    takeover,
    waiting,
)
from bench.report import Figure
from bench.sides import Bare, Ours
from bench.size import QUICK, Size
from tests.rig.postgres import Postgres

# As a database that must keep what it acknowledged is run; the tests' own is not.
_DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
_RESULTS = Path(__file__).with_name("results.json")

Part = Callable[[Ours, Bare, Path, Size], list[Figure]]
PARTS: Mapping[str, Part] = {
    "deploys": lambda ours, bare, _, size: deploys.one_at_a_time(ours, bare, size),
    "throughput": lambda ours, bare, _, size: deploys.at_once(ours, bare, size),
    "hook": lambda _, __, folder, size: hooks.through_a_guard(folder / "hooks", size),
    "start": lambda ours, _, folder, size: starts.of_the_client(ours, folder / "cli", size),
    "lines": lambda ours, _, __, size: lines.kept_and_discarded(ours, size),
    "idle": lambda ours, bare, _, size: idle.of_both(ours, bare, size),
    "waiting": lambda ours, _, __, size: waiting.for_approval(ours, size),
    "restart": lambda ours, _, __, size: restart.of_a_killed_worker(ours, size),
    "pending": lambda _, __, folder, size: takeover.of_many_deploys(folder / "p", _DURABLE, size),
    "audited": lambda _, __, folder, size: audited.beside_none(folder / "w", _DURABLE, size),
    "audit": lambda _, __, folder, size: audit.checked_and_written(folder / "a", _DURABLE, size),
    "list": lambda _, __, folder, size: listing.of_a_long_history(folder / "l", _DURABLE, size),
    "prune": lambda ours, _, folder, size: [
        *pruning.beside_a_delete(folder / "d", _DURABLE, size),
        *pruning.beside_deploys(ours, size),
    ],
    "takeover": lambda ours, _, __, size: takeover.of_killed_workers(ours, size),
}


def main(arguments: Sequence[str], results: Path) -> int:
    """Measure, print, write; 1 if something was wrong, goals that are missed are not."""
    asked = _parser().parse_args(arguments)
    size = QUICK if asked.quick else Size()
    folder = Path(tempfile.mkdtemp(prefix="manent-bench-"))
    postgres = Postgres(settings=_DURABLE)
    try:
        found, facts, wrong = _measure(postgres, folder, asked.only or list(PARTS), size)
    finally:
        postgres.close()
        shutil.rmtree(folder, ignore_errors=True)
    _say(report.table(found))
    _say("\n".join(wrong or ["no two deploys met in one place, no finished step was run again"]))
    written = {"machine": facts, "wrong": wrong, "figures": [each.as_json() for each in found]}
    results.write_text(json.dumps(written, indent=2) + "\n")
    return int(bool(wrong))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", choices=list(PARTS))
    return parser


def _measure(
    postgres: Postgres, folder: Path, names: Sequence[str], size: Size
) -> tuple[list[Figure], dict[str, Any], list[str]]:
    ours = Ours(folder / "ours", postgres.create_database(), lines=size.lines)
    try:
        bare = Bare(folder / "bare", postgres.create_database())
        try:
            _warm_up(ours, bare)
            facts = machine.facts(ours, folder)
            found = [each for name in names for each in _part(name, ours, bare, folder, size)]
            return found, facts | {"load_after": os.getloadavg()}, _wrong(ours)
        finally:
            bare.close()
    finally:
        ours.close()


def _part(name: str, ours: Ours, bare: Bare, folder: Path, size: Size) -> list[Figure]:
    _say(f"... {name}")
    return PARTS[name](ours, bare, folder, size)


def _warm_up(ours: Ours, bare: Bare) -> None:
    for side in (ours, bare):
        side.wait([side.submit(place) for place in range(8)])


def _wrong(ours: Ours) -> list[str]:
    """What the marks of all deploys tell."""
    marks = ours.marks()
    met = [
        f"met in {one.place}: {one.run} and {other.run}" for one, other in history.overlaps(marks)
    ]
    return met + [f"ran twice: {step} of {deploy}" for deploy, step in history.repeated(marks)]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # `make` hands its variables on.
    chosen = os.environ.get("BENCH_JSON")  # noqa: TID251 - the makefile's variable
    sys.exit(main(sys.argv[1:], Path(chosen) if chosen else _RESULTS))
