"""manent.yml of the bench: its defaults, a no-op application in many places, and two that act."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLACES = 40
LINES = 1_000_000
SLEEP = 4.0
_TWO_STEPS = {"targets": {"a": {}, "b": {}}, "waves": [1, "rest"]}


def configuration(marks: Path, *, lines: int) -> dict[str, Any]:
    """Merged over the rig's own; None takes its fast timings and its applications away."""
    places = [f"place-{number}" for number in range(PLACES)]
    return {
        "recovery": None,
        "dbos": None,
        "worker": None,
        "environments": {
            **{name: {"tier": "staging"} for name in (*places, "other")},
            "asked": {"tier": "staging", "approvals": [{"name": "release"}]},
        },
        "applications": {
            "shop": None,
            "billing": None,
            "noop": _application(marks, places, _TWO_STEPS),
            "kept": _application(marks, ["other"], lines=lines),
            "discarded": _application(marks, ["other"], lines=lines, keep=False),
            "asked": _application(marks, ["asked"]),
            "sleeper": _application(marks, ["other"], sleep=SLEEP),
        },
    }


def _application(
    marks: Path, places: list[str], more: Mapping[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    return {
        "plugin": "noop",
        "options": {"marks": str(marks), **options},
        "environments": dict.fromkeys(places, more or {"targets": {"a": {}}}),
    }
