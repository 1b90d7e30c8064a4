"""What was said and what is left in place: I11, I16, I18, I20."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tests.chaos.checker import checker
from tests.chaos.history import ENDED, History, Line, runs

_WORDS = re.compile(r"line (\d+) of attempt (\d+) ")
_UNSURE = "?"

Row = Mapping[str, Any]


@checker("I11")
def logs_have_no_hole(history: History) -> Iterator[str]:
    """Lines have numbers without a hole, and each attempt's own lines come once and in order."""
    logs: dict[str, list[Line]] = defaultdict(list)
    for line in history.lines:
        if line.is_final:
            logs[line.deploy].append(line)
    counts = _said(history)
    for deploy, lines in logs.items():
        numbers = [line.sequence for line in lines]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            yield f"{deploy}: the numbers of its lines have a hole or repeat"
        yield from _attempts(deploy, lines, counts)


def _attempts(
    deploy: str, lines: list[Line], counts: Mapping[tuple[str, str, int], int]
) -> Iterator[str]:
    heard: dict[tuple[str, int], list[int]] = defaultdict(list)
    for line in lines:
        found = _WORDS.match(line.text)
        if found and line.step is not None and line.attempt is not None:
            heard[line.step, line.attempt].append(int(found[1]))
            if int(found[2]) != line.attempt:
                yield f"{deploy}: a line of attempt {found[2]} stands under {line.attempt}"
    for (step, attempt), numbers in heard.items():
        if numbers != list(range(len(numbers))):
            yield f"{deploy} {step} attempt {attempt}: lines are lost, doubled or out of order"
    for (of, step, attempt), count in counts.items():
        if of == deploy and len(heard.get((step, attempt), ())) != count:
            got = len(heard.get((step, attempt), ()))
            yield f"{deploy} {step} attempt {attempt}: {got} of {count} lines are there"


def _said(history: History) -> dict[tuple[str, str, int], int]:
    """How many lines the attempts said whose own run of the deploy has also closed it.

    Of others the last second may be missing: their worker was killed or lost the deploy. Who
    closes a deploy for a worker that is lost takes it off that worker, and keeps its epoch.
    """
    last = {
        change.row["id"]: None if _is_closed_by_another(change.row) else change.row["epoch"]
        for change in history.of("deploys")
    }
    good = {
        (change.row["deploy"], change.row["step"], change.row["attempt"])
        for change in history.of("attempts")
        if change.row["result"] == "succeeded"
        and change.row["epoch"] == last.get(change.row["deploy"])
    }
    return {
        (run.first.deploy, run.step, run.first.attempt): run.last.lines or 0
        for run in runs(history.ledger)
        if run.has_ended and (run.first.deploy, run.step, run.first.attempt) in good
    }


def _is_closed_by_another(deploy: Row) -> bool:
    return deploy["state"] in ENDED and deploy["executor"] is None


@checker("I11")
def what_was_read_stays(history: History) -> Iterator[str]:
    """A line a reader was given is in every later reading, the same."""
    final = {(line.deploy, line.sequence): line.text for line in history.lines if line.is_final}
    known = {line.deploy for line in history.lines if line.is_final}
    for line in history.lines:
        if line.deploy in known and final.get((line.deploy, line.sequence)) != line.text:
            yield f"{line.deploy} line {line.sequence} was read and is gone or changed"


@checker("I16")
def the_inventory_is_what_the_ends_say(history: History) -> Iterator[str]:
    """What the inventory shows follows from the ends of deploys in their order."""
    steps = _last_steps(history)
    shown = {row["id"]: row for row in history.deploys}
    place: dict[tuple[str, str, str], tuple[str, str]] = {}
    ended: set[str] = set()
    for change in history.of("deploys"):
        row = change.row
        if row["state"] not in ENDED or row["id"] in ended or row["id"] not in shown:
            continue
        ended.add(row["id"])
        for target in shown[row["id"]]["targets"]:
            key = (row["environment"], row["application"], target)
            left = _left(row, _of_target(steps, row, target), place.get(key))
            if left is not None:
                place[key] = left
    found = {
        (row["environment"], row["application"], row["target"]): (row["version"], row["state"])
        for row in history.inventory
    }
    for key in place.keys() | found.keys():
        wanted, got = place.get(key), found.get(key)
        is_sure = wanted is None or wanted[0] != _UNSURE
        if is_sure and wanted != got and not _both_unknown(wanted, got):
            yield f"{key} shows {got}, its deploys have left {wanted}"


def _both_unknown(wanted: tuple[str, str] | None, got: tuple[str, str] | None) -> bool:
    return wanted is not None and got is not None and wanted[1] == got[1] == "unknown"


def _left(row: Row, steps: list[Row], before: tuple[str, str] | None) -> tuple[str, str] | None:
    """What a deploy left on one target; None: nothing of its own."""
    if row["state"] == "SUCCESS":
        return row["version"], "known"
    is_back = row["kind"] == "rollback"
    undone = [] if is_back else [step for step in steps if step["hook"] == "rollback"]
    acted = [step for step in steps if step["hook"] in ("deploy", "rollback", "verify")]
    forward = [step for step in acted if step not in undone]
    if any(step["state"] == "succeeded" for step in undone):
        return before if before is not None and before[1] == "known" else (_UNSURE, "known")
    if not any(step["started_at"] and step.get("touched") is not False for step in forward):
        return None
    is_reached = not undone and all(step["state"] == "succeeded" for step in forward)
    return row["version"], "known" if is_reached else "unknown"


def _last_steps(history: History) -> dict[str, dict[tuple[int, str], dict[str, Any]]]:
    """The steps of each deploy as they stood last, and whether an attempt of theirs began."""
    found: dict[str, dict[tuple[int, str], dict[str, Any]]] = defaultdict(dict)
    began: dict[tuple[str, int, str], dict[str, str | None]] = defaultdict(dict)
    for change in history.of("steps", "attempts"):
        row = change.row
        if change.table == "steps":
            found[row["deploy"]][row["pass_number"], row["name"]] = dict(row)
        else:
            began[row["deploy"], row["pass_number"], row["step"]][row["id"]] = row["result"]
    for (deploy, number, name), results in began.items():
        step = found[deploy].get((number, name))
        if step is not None and step["hook"] != "verify":
            step["touched"] = any(result != "not_started" for result in results.values())
    return found


def _of_target(
    steps: Mapping[str, Mapping[tuple[int, str], Row]], row: Row, target: str
) -> list[Row]:
    """The steps of the last pass on one target."""
    mine = steps.get(row["id"], {})
    return [
        step
        for (number, _), step in mine.items()
        if number == row["pass_number"] and step["target"] == target
    ]


@checker("I18")
def no_secret_leaks(history: History) -> Iterator[str]:
    """The planted secret is in no stored and no sent byte."""
    yield from history.leaks


def ends(history: History) -> dict[str, str]:
    """How each request ended that nobody cancelled, by its nonce: well or badly."""
    cancelled = {call.about["deploy"] for call in history.calls if call.what == "cancel"}
    return {
        row["reason"]: "well" if row["state"] == "SUCCESS" else "badly"
        for row in history.deploys
        if row["id"] not in cancelled and row["kind"] == "deploy"
        if row["outcome"] not in ("superseded", "poisoned", None)
    }


@checker("I20")
def ends_are_those_without_faults(history: History) -> Iterator[str]:
    """Faults change no end: what its version says of a deploy is what becomes of it."""
    calm = history.settings.get("calm_ends", {})
    for nonce, end in ends(history).items():
        wanted = calm.get(nonce)
        if wanted is not None and wanted != end:
            yield f"{nonce} ended {end}; without faults it ends {wanted}"


CHECKERS = (
    logs_have_no_hole,
    what_was_read_stays,
    the_inventory_is_what_the_ends_say,
    no_secret_leaks,
    ends_are_those_without_faults,
)
