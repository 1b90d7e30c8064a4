"""A rerun: which steps of an ended deploy are carried over, and which run again."""

from collections.abc import Collection
from dataclasses import dataclass

from manent_server.domain import names
from manent_server.domain.errors import Conflict, NotFound
from manent_server.domain.plan import Plan, Step


@dataclass(frozen=True)
class Split:
    """The steps of a plan in two: before the one it begins at, and from there on."""

    carried: tuple[Step, ...]
    again: tuple[Step, ...]


def kept(plan: Plan, *, succeeded: Collection[str], undone: Collection[str]) -> frozenset[str]:
    """Steps whose result still stands.

    Args:
        plan: The plan of the deploy.
        succeeded: Names of the steps that succeeded.
        undone: Targets a rollback of it was begun on: what was brought there is gone.
    """
    return frozenset(
        step.name for step in plan.steps() if step.name in succeeded and step.target not in undone
    )


def first_open(plan: Plan, kept: Collection[str]) -> Step | None:
    """Where a retry begins: the first step without a standing result."""
    return next((step for step in plan.steps() if step.name not in kept), None)


def split(plan: Plan, begin: str, kept: Collection[str]) -> Split:
    """The plan cut before the step of this name.

    Raises:
        NotFound: The plan has no such step.
        Conflict: A step before it has no result that could be carried over.
    """
    steps = plan.steps()
    found = next((step for step in steps if step.name == begin), None)
    if found is None:
        raise _unknown(begin, [step.name for step in steps])
    carried = tuple(step for step in steps if step.position < found.position)
    missing = next((step for step in carried if step.name not in kept), None)
    if missing is not None:
        raise Conflict(
            f"{missing.name} comes before {begin} and has no result that still stands",
            code="step_not_succeeded",
            next=f"begin at {missing.name} or before it",
            facts={"step": missing.name},
        )
    return Split(carried, steps[len(carried) :])


def _unknown(begin: str, known: list[str]) -> NotFound:
    like = names.nearest(begin, known)
    shown = begin.encode("unicode_escape").decode("ascii")[:80]
    advice = f"did you mean {like}?" if like else f"its steps: {', '.join(known)}"
    return NotFound(f"there is no step {shown} in its plan", code="step_unknown", next=advice)
