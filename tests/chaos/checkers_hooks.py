"""What hooks did, by the ledger: I1, I3, I4, I10, I19."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from tests.chaos.checker import checker
from tests.chaos.history import ACTING, History, Mark, Run, runs

# From the hand-out of an attempt to its first line, on a busy machine.
_BEGINNING = 3.0
_COUNTED = frozenset({"failed", "timed_out", "interrupted"})


@checker("I1")
def no_two_deploys_meet(history: History) -> Iterator[str]:
    """Hooks of two deploys, or of two epochs of one, never overlap in one place."""
    for one, other in _meeting(_hooks(history)):
        if one.place == other.place and one.owner != other.owner:
            yield f"{_name(one)} and {_name(other)} were at work together in {one.place}"


@checker("I1")
def one_hook_per_target(history: History) -> Iterator[str]:
    """Within one epoch a target has one hook at most, and the deploy `max_parallel`."""
    for one, other in _meeting(_hooks(history)):
        if one.owner == other.owner and one.first.target == other.first.target:
            yield f"{_name(one)} and {_name(other)} were at work on one target"
    limits = history.settings.get("max_parallel", {})
    for owner, theirs in _grouped(_hooks(history)).items():
        limit = limits.get(theirs[0].first.application)
        most = max(
            sum(run.first.at <= at < run.last.at for run in theirs) for at in _starts(theirs)
        )
        if limit is not None and most > limit:
            yield f"{owner} had {most} hooks at once, {limit} are allowed"


@checker("I1")
def no_more_deploys_than_places(history: History) -> Iterator[str]:
    """No more deploys act in an environment than it has places."""
    by_environment: dict[str, list[Run]] = defaultdict(list)
    for run in _hooks(history):
        by_environment[run.first.environment].append(run)
    limits = history.settings.get("concurrency", {})
    for environment, theirs in by_environment.items():
        limit = limits.get(environment, 1)
        for run in theirs:
            at = run.first.at
            acting = {r.first.deploy for r in theirs if r.first.at <= at < r.last.at}
            if len(acting) > limit:
                yield f"{len(acting)} deploys acted in {environment} at once: {sorted(acting)}"


@checker("I3")
def no_finished_step_begins_again(history: History) -> Iterator[str]:
    """No attempt of a step is handed out, and none begins, after the step has ended."""
    ended: dict[tuple[str, int, str], float] = {}
    passes = _passes(history)
    for change in history.of("steps", "attempts"):
        row = change.row
        if change.table == "steps":
            if row["ended_at"] is not None:
                ended.setdefault((row["deploy"], row["pass_number"], row["name"]), change.at)
        elif row["ended_at"] is None and _step(row) in ended:
            yield f"{_step(row)} was handed out again after its end"
    last = {run.first.attempt: run for run in _hooks(history)}
    for run in _hooks(history):
        if passes[run.first.deploy] > 1:
            continue
        at = ended.get((run.first.deploy, 1, run.step))
        if at is not None and run.first.at > at + _BEGINNING and run.first.attempt in last:
            yield f"{_name(run)} began {run.first.at - at:.1f} s after its step had ended"


@checker("I4")
def an_interrupted_step_begins_once_more(history: History) -> Iterator[str]:
    """In one epoch a step begins once, and once more for each attempt that ended badly."""
    passes = _passes(history)
    bad = _ended_badly(history)
    starts: Counter[tuple[str, str, int]] = Counter()
    same: Counter[tuple[str, str, int]] = Counter()
    for run in _hooks(history):
        if passes[run.first.deploy] == 1:
            starts[run.first.deploy, run.step, run.first.epoch] += 1
            same[run.first.deploy, run.step, run.first.attempt] += 1
    for step, count in starts.items():
        if count > 1 + bad[step]:
            yield f"{step} began {count} times in one epoch, {bad[step]} attempts had ended badly"
    for attempt, count in same.items():
        if count > 1:
            yield f"attempt {attempt} began {count} times"


def _ended_badly(history: History) -> Counter[tuple[str, str, int]]:
    """How many attempts of each step ended badly under each epoch."""
    rows = {
        change.row["id"]: change.row
        for change in history.of("attempts")
        if change.row["result"] in _COUNTED
    }
    return Counter((row["deploy"], row["step"], row["epoch"]) for row in rows.values())


@checker("I10")
def nothing_is_handed_out_after_a_cancel(history: History) -> Iterator[str]:
    """After a recorded cancel no deploy or verify step is handed out."""
    asked: set[str] = set()
    for change in history.of("deploys", "attempts"):
        row = change.row
        if change.table == "deploys":
            if row["cancel_requested_at"] is not None:
                asked.add(row["id"])
        elif row["deploy"] in asked and row["ended_at"] is None and _acts_forward(row):
            yield f"{_step(row)} was handed out after the cancel was recorded"


@checker("I10")
def nothing_begins_after_a_cancel(history: History) -> Iterator[str]:
    """After an acknowledged cancel no hook of a deploy or verify step begins."""
    answered: dict[str, float] = {}
    for call in history.calls:
        if call.what == "cancel" and call.is_good:
            answered.setdefault(call.about["deploy"], call.answered)
    for run in _hooks(history):
        at = answered.get(run.first.deploy)
        late = at is not None and run.first.at > at + _BEGINNING
        if late and run.first.hook != "rollback":
            yield f"{_name(run)} began after its deploy's cancel was acknowledged"


@checker("I19")
def nothing_of_an_earlier_owner_lives(history: History) -> Iterator[str]:
    """When a hook begins, nothing of an earlier owner or attempt is alive: also grandchildren."""
    found = [run for run in runs(history.ledger) if not _is_service(run, history)]
    for one, other in _meeting(found):
        early, late = sorted((one, other), key=lambda run: (run.first.epoch, run.first.attempt))
        is_other = early.place == late.place and early.first.epoch < late.first.epoch
        if (is_other or _is_next(early, late)) and early.last.at > late.first.at:
            seconds = early.last.at - late.first.at
            yield f"{_name(early)} was seen {seconds:.2f} s into {_name(late)}"


def _is_next(early: Run, late: Run) -> bool:
    """Whether one is a later attempt of the other's step in the same epoch."""
    is_same = early.owner == late.owner and early.step == late.step
    return is_same and early.first.attempt < late.first.attempt


def _hooks(history: History) -> list[Run]:
    return [run for run in runs(history.ledger) if not run.is_child and run.first.hook in ACTING]


def _is_service(run: Run, history: History) -> bool:
    """A grandchild of a hook that came to its end: a service that may live on."""
    if not run.is_child:
        return False
    parent = run.first.run.removesuffix("-child")
    return any(mark.run == parent and mark.event == "end" for mark in history.ledger)


def _meeting(found: Iterable[Run]) -> Iterator[tuple[Run, Run]]:
    """Pairs that were alive together."""
    alive: list[Run] = []
    for run in sorted(found, key=lambda run: run.first.at):
        alive = [earlier for earlier in alive if earlier.last.at > run.first.at]
        yield from ((earlier, run) for earlier in alive if earlier.meets(run))
        alive.append(run)


def _grouped(found: Iterable[Run]) -> dict[tuple[str, int], list[Run]]:
    groups: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in found:
        groups[run.owner].append(run)
    return groups


def _starts(found: Iterable[Run]) -> list[float]:
    return [run.first.at for run in found]


def _step(row: "Mark | dict[str, object]") -> tuple[object, object, object]:
    return row["deploy"], row["pass_number"], row["step"]


def _acts_forward(row: "dict[str, object]") -> bool:
    return row["hook"] != "rollback"


def _passes(history: History) -> Counter[str]:
    """How many passes each deploy has had."""
    found: Counter[str] = Counter()
    for run in history.ledger:
        found[run.deploy] = 1
    for change in history.of("deploys"):
        found[change.row["id"]] = max(found[change.row["id"]], change.row["pass_number"])
    return found


def _name(run: Run) -> str:
    first = run.first
    kind = " (its grandchild)" if run.is_child else ""
    return (
        f"{first.deploy[:8]} {run.step} attempt {first.attempt} epoch {first.epoch}"
        f" on {first.executor}{kind}"
    )


CHECKERS = (
    no_two_deploys_meet,
    one_hook_per_target,
    no_more_deploys_than_places,
    no_finished_step_begins_again,
    an_interrupted_step_begins_once_more,
    nothing_is_handed_out_after_a_cancel,
    nothing_begins_after_a_cancel,
    nothing_of_an_earlier_owner_lives,
)
