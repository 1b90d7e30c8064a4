"""Reads what the target of the tests wrote, and tells it what to do next.

The ledger is the truth about what ran: it stands outside of the product, and a status alone
proves nothing.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

_TARGET = Path(__file__).with_name("target.py")
_HOOKS = ("deploy", "rollback", "verify", "observe")


@dataclass(frozen=True)
class Run:
    """One run of a hook, or of a detached grandchild of one.

    `ended` is None for a run that was killed; its `last_seen` is then the newest line it
    left, so an interval is never longer than what was really witnessed.
    """

    facts: Mapping[str, Any]
    started: float
    last_seen: float
    ended: float | None
    exit: int | None

    def __getattr__(self, name: str) -> Any:
        try:
            return self.facts[name]
        except KeyError as missing:
            raise AttributeError(name) from missing

    @property
    def place(self) -> tuple[str, str]:
        """Environment and application: where two runs must not meet."""
        return self.facts["environment"], self.facts["application"]

    @property
    def until(self) -> float:
        """The last instant at which the run was certainly alive."""
        return self.last_seen if self.ended is None else self.ended

    def overlaps(self, other: "Run") -> bool:
        """Whether both were alive at one instant."""
        return self.started < other.until and other.started < self.until


@dataclass
class Ledger:
    """One ledger file with its control file, in a folder of the test's own."""

    folder: Path
    _orders: list[dict[str, Any]] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """The file the target appends to."""
        return self.folder / "ledger.jsonl"

    @property
    def control(self) -> Path:
        """The file the target is told by."""
        return self.folder / "control.json"

    def command(self, hook: str) -> list[str]:
        """The argument list of one hook, for the `command` plugin."""
        python = str(getattr(sys, "_base_executable", sys.executable))
        return [python, "-S", "-E", str(_TARGET), str(self.path), str(self.control), hook]

    def options(self, *hooks: str) -> dict[str, Any]:
        """Options of the `command` plugin with these hooks (default: deploy and rollback)."""
        chosen = hooks or ("deploy", "rollback")
        unknown = set(chosen) - set(_HOOKS)
        if unknown:
            raise ValueError(f"no such hook: {', '.join(sorted(unknown))}")
        return {hook: self.command(hook) for hook in chosen}

    def application(self, targets: Iterable[str] = ("host",), **more: Any) -> dict[str, Any]:
        """An application of manent.yml in staging, acted on by the ledger's target."""
        environments = more.pop("environments", ("staging",))
        hooks = more.pop("hooks", ())
        reached: dict[str, dict[str, Any]] = {target: {} for target in targets}
        places = {name: {"targets": reached} for name in environments}
        return {
            "plugin": "command",
            "options": self.options(*hooks),
            "environments": places,
            **more,
        }

    def tell(self, order: Mapping[str, Any] | None = None, **when: Any) -> None:
        """Order runs with these fields to do this from now on; no order forgets all.

        Example: `ledger.tell({"sleep": 2, "exit": 1}, hook="deploy", target="web-2")`.
        """
        if order is None:
            self._orders.clear()
        else:
            self._orders.append({"when": when, "do": dict(order)})
        fresh = self.control.with_suffix(".new")
        fresh.write_text(json.dumps(self._orders))
        fresh.replace(self.control)

    def lines(self) -> list[dict[str, Any]]:
        """Every line so far, oldest first."""
        if not self.path.exists():
            return []
        # A line still being written has no line break yet.
        whole, _, _ = self.path.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def runs(self, **wanted: Any) -> list[Run]:
        """Runs with these fields in order of start (detached grandchildren: `children`)."""
        return [run for run in self._all() if not run.is_child and _fits(run, wanted)]

    def children(self, **wanted: Any) -> list[Run]:
        """Detached grandchildren of runs with these fields."""
        return [run for run in self._all() if run.is_child and _fits(run, wanted)]

    def overlaps(self) -> list[tuple[Run, Run]]:
        """Pairs of runs, grandchildren too, of two deploys or epochs that met in one place.

        Runs of one deploy under one epoch may meet (targets side by side), and so may a run
        and its own grandchild.
        """
        return [
            (one, other)
            for one, other in combinations(self._all(), 2)
            if one.place == other.place and _owner(one) != _owner(other) and one.overlaps(other)
        ]

    def peak(self, environment: str) -> int:
        """The most deploys seen acting in one environment at one instant."""
        runs = [run for run in self._all() if run.environment == environment]
        return max((_alive_at(run.started, runs) for run in runs), default=0)

    def _all(self) -> list[Run]:
        found: dict[str, list[dict[str, Any]]] = {}
        for line in self.lines():
            found.setdefault(line["run"], []).append(line)
        return sorted(map(_run, found.values()), key=lambda run: run.started)


def _run(lines: list[dict[str, Any]]) -> Run:
    first, last = lines[0], lines[-1]
    has_ended = last["event"] == "end"
    return Run(
        facts={**first, "is_child": first["event"] == "child"},
        started=first["at"],
        last_seen=last["at"],
        ended=last["at"] if has_ended else None,
        exit=last["exit"] if has_ended else None,
    )


def _owner(run: Run) -> tuple[str, int]:
    return run.facts["deploy"], run.facts["epoch"]


def _fits(run: Run, wanted: Mapping[str, Any]) -> bool:
    return all(run.facts.get(name) == value for name, value in wanted.items())


def _alive_at(instant: float, runs: Iterable[Run]) -> int:
    return len({run.facts["deploy"] for run in runs if run.started <= instant < run.until})
