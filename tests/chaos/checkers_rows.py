"""What became of rows, as committed transactions left them: I2, I5, I6, I7, I13, I17."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tests.chaos.checker import checker
from tests.chaos.history import ACTING, ENDED, Change, History

# From the signal to the moment nothing is dequeued any more, on a busy machine.
_SIGNAL = 2.0
# How long a transaction that frees a place may take to commit.
_COMMIT = 2.0
# A row that somebody holds, an outage of the database and a restart of everything in between.
_PUT_BACK = 25.0
# They cost their victim its connection or its life, and nobody else anything.
_ONE_ALONE = frozenset({"backends", "deploy_lock"})
_FINAL = ("state", "outcome", "epoch", "ended_at")
# Drained, "restart me", killed by us, told to end before it could listen, or told so twice.
_EXITS = frozenset({0, 75, -9, -15, 128 + 15})

Row = Mapping[str, Any]


@checker("I2")
def epochs_rise(history: History) -> Iterator[str]:
    """A deploy's epoch never falls, and so it is with the attempts of one place."""
    epochs: dict[str, int] = {}
    places: dict[tuple[str, str], int] = {}
    for change in history.of("deploys", "attempts"):
        row = change.row
        if change.table == "deploys":
            before = epochs.get(row["id"], 0)
            if row["epoch"] < before:
                yield f"the epoch of {row['id']} fell from {before} to {row['epoch']}"
            epochs[row["id"]] = row["epoch"]
        elif row["ended_at"] is None:
            place = (row["environment"], row["application"])
            if row["epoch"] < places.get(place, 0):
                yield f"{place}: epoch {row['epoch']} was handed out after {places[place]}"
            places[place] = row["epoch"]


@checker("I2")
def only_the_newest_epoch_hands_out(history: History) -> Iterator[str]:
    """Attempts are handed out of running deploys, and under their own epoch."""
    deploys: dict[str, Row] = {}
    for change in history.of("deploys", "attempts"):
        row = change.row
        if change.table == "deploys":
            deploys[row["id"]] = row
            continue
        deploy = deploys.get(row["deploy"])
        if deploy is None or row["ended_at"] is not None:
            continue
        if row["epoch"] != deploy["epoch"]:
            yield f"{row['step']} of {row['deploy']} was handed out under a stale epoch"
        if deploy["state"] != "PENDING":
            yield f"{row['step']} of {row['deploy']} was handed out while {deploy['state']}"


@checker("I2")
def only_the_newest_epoch_ends_steps(history: History) -> Iterator[str]:
    """A step ends well by an attempt of the deploy's own epoch only."""
    epochs: dict[str, int] = {}
    succeeded: dict[tuple[str, int, str], int] = {}
    for change in history.of("deploys", "attempts", "steps"):
        row = change.row
        if change.table == "deploys":
            epochs[row["id"]] = row["epoch"]
        elif change.table == "attempts" and row["result"] == "succeeded":
            succeeded[row["deploy"], row["pass_number"], row["step"]] = row["epoch"]
        elif change.table == "steps" and row["state"] == "succeeded" and row["hook"] in ACTING:
            epoch = succeeded.get((row["deploy"], row["pass_number"], row["name"]))
            if epoch is not None and epoch != epochs.get(row["deploy"]):
                yield f"{row['name']} of {row['deploy']} ended by a stale epoch {epoch}"


@checker("I5")
def every_deploy_ends(history: History) -> Iterator[str]:
    """What was accepted is there, and what is there has ended."""
    known = {row["id"]: row for row in history.deploys}
    for call in history.calls:
        is_asked = call.what in ("deploy", "redeploy", "rollback") and call.is_good
        if is_asked and call.answer["id"] not in known:
            yield f"{call.answer['id']} was accepted and is not there"
    for row in history.deploys:
        if row["state"] not in ENDED:
            yield f"{row['id']} has not ended: {row['state']} {row['phase']} {row.get('summary')}"


@checker("I5")
def an_end_is_final(history: History) -> Iterator[str]:
    """A deploy that has ended never changes again."""
    ends: dict[str, Row] = {}
    for change in history.of("deploys"):
        row = change.row
        end = ends.get(row["id"])
        if end is not None and any(end[name] != row[name] for name in _FINAL):
            yield f"{row['id']} had ended {end['state']} and changed to {row['state']}"
        if row["state"] in ENDED:
            ends.setdefault(row["id"], row)


@checker("I6")
def one_key_one_deploy(history: History) -> Iterator[str]:
    """A key and its repetitions name one deploy."""
    answers: dict[str, set[str]] = defaultdict(set)
    for call in history.calls:
        if call.key and call.is_good and "id" in call.answer:
            answers[call.key].add(call.answer["id"])
    for key, ids in answers.items():
        if len(ids) > 1:
            yield f"key {key} was answered with {sorted(ids)}"


@checker("I6")
def one_request_one_deploy(history: History) -> Iterator[str]:
    """A request makes one deploy however often it is sent, and nothing but schedules makes any."""
    asked = {call.nonce for call in history.calls if call.nonce}
    rows: dict[str, list[str]] = defaultdict(list)
    for deploy in history.deploys:
        if deploy.get("schedule"):  # asked for by an instant, of which I14 speaks
            continue
        rows[deploy["reason"]].append(deploy["id"])
    for nonce, ids in rows.items():
        if nonce not in asked:
            yield f"{ids} were never asked for"
        elif len(ids) > 1:
            yield f"one request made {sorted(ids)}"


@checker("I7")
def admission_in_order(history: History) -> Iterator[str]:
    """Nobody is given a place while somebody before him could have it."""
    waiting: dict[str, Row] = {}
    places: dict[tuple[str, str], str] = {}
    freed: dict[tuple[str, str], float] = {}
    for change in history.of("deploys", "slots"):
        row = change.row
        if change.table == "deploys":
            is_waiting = row["state"] == "ENQUEUED" and row["ticket"] is not None
            if is_waiting and row["blocked"] is None:
                waiting[row["id"]] = row
            else:
                waiting.pop(row["id"], None)
            continue
        place = (row["environment"], row["application"])
        if change.is_deletion:
            places.pop(place, None)
            freed[place] = change.at
            continue
        if place in places:
            yield f"{place} was given to {row['deploy']} while {places[place]} had it"
        # A place is free to others only when the transaction that freed it has committed.
        recent = {place for place, at in freed.items() if at > change.at - _COMMIT}
        yield from _passed_over(row, waiting, places, recent)
        places[place] = row["deploy"]


def _passed_over(
    slot: Row,
    waiting: Mapping[str, Row],
    places: Mapping[tuple[str, str], str],
    recent: Collection[tuple[str, str]],
) -> Iterator[str]:
    taken = waiting.get(slot["deploy"])
    if taken is None:
        yield f"{slot['deploy']} was given a place and did not wait"
        return
    holders = set(places.values())
    for row in waiting.values():
        is_before = (row["priority"], row["ticket"]) < (taken["priority"], taken["ticket"])
        place = (row["environment"], row["application"])
        could = place not in places and place not in recent and row["id"] not in holders
        if is_before and could and row["environment"] == slot["environment"]:
            yield f"{row['id']} was passed over by {taken['id']} in {slot['environment']}"


@checker("I13")
def one_holder_per_lease(history: History) -> Iterator[str]:
    """A lease changes hands only after its end, and its token rises with each holder."""
    for change in history.of("leases"):
        row = change.row
        if row.get("old_holder") is None or row["old_holder"] == row["holder"]:
            continue
        if row["old_until"] > change.at:
            left = row["old_until"] - change.at
            yield f"{row['holder']} took {row['name']} {left:.2f} s before its end"
        if row["token"] <= row["old_token"]:
            yield f"the token of {row['name']} did not rise with {row['holder']}"


def _are_harmed(history: History, since: float, until: float) -> bool:
    """Whether a fault may have kept every worker from taking something up."""
    return any(
        fault.kind not in _ONE_ALONE and fault.at <= until and (fault.until or fault.at) >= since
        for fault in history.faults
    )


@checker("I5")
def claimed_work_is_put_back(history: History) -> Iterator[str]:
    """What a claimed start still has is put back soon, whoever held its row meanwhile.

    Counted from the last start of a worker: without one there is nobody to give it to. The next
    start of the claimed worker itself counts for one only where the others were harmed too.
    """
    claimed: dict[str, float] = {}
    started: dict[str, float] = {}
    owner: dict[str, str] = {}
    for change in history.of("executors"):
        started.setdefault(change.row["incarnation"], change.at)
        owner[change.row["incarnation"]] = change.row["id"]
        if change.row.get("recovered_by") is not None:
            claimed.setdefault(change.row["incarnation"], change.at)
    held: dict[str, tuple[str, float]] = {}
    for change in history.of("deploys"):
        row = change.row
        before, since = held.pop(row["id"], (None, 0.0))
        if before is not None and before != row["incarnation"] and before in claimed:
            asked = max(since, claimed[before])
            is_harmed = _are_harmed(history, asked, change.at)
            starts = [
                at
                for start, at in started.items()
                if at <= change.at and (is_harmed or owner[start] != owner[before])
            ]
            seconds = change.at - max([asked, *starts])
            if seconds > _PUT_BACK:
                yield f"{row['id']} stayed under a claimed start for {seconds:.0f} s"
        if row["incarnation"] is not None and row["ended_at"] is None:
            since = since if before == row["incarnation"] else change.at
            held[row["id"]] = (row["incarnation"], since)


@checker("I17")
def nothing_is_taken_after_the_signal(history: History) -> Iterator[str]:
    """A worker that was told to end takes no deploy any more."""
    told = [fault for fault in history.faults if fault.kind == "term"]
    taken: set[tuple[str, int]] = set()
    for change in history.of("deploys"):
        row = change.row
        if row["incarnation"] is None or (row["id"], row["epoch"]) in taken:
            continue
        taken.add((row["id"], row["epoch"]))
        for fault in told:
            until = _next_start(history, fault.victim or "", fault.at)
            late = fault.at + _SIGNAL < change.at < until
            if row["executor"] == fault.victim and late:
                yield f"{fault.victim} took {row['id']} {change.at - fault.at:.1f} s after SIGTERM"


def _next_start(history: History, executor: str, at: float) -> float:
    """When the next incarnation of a worker began."""
    first: dict[str, Change] = {}
    for change in history.of("executors"):
        if change.row["id"] == executor:
            first.setdefault(change.row["incarnation"], change)
    later = [change.at for change in first.values() if change.at > at]
    return min(later, default=float("inf"))


@checker("life")
def processes_end_as_they_say(history: History) -> Iterator[str]:
    """A worker ends drained, asking to be restarted, or because we killed it."""
    for end in history.exits:
        if end["code"] not in _EXITS:
            yield f"{end['name']} ended with {end['code']}: {end.get('said', '')[-300:]}"


CHECKERS = (
    epochs_rise,
    only_the_newest_epoch_hands_out,
    only_the_newest_epoch_ends_steps,
    every_deploy_ends,
    an_end_is_final,
    one_key_one_deploy,
    one_request_one_deploy,
    admission_in_order,
    one_holder_per_lease,
    claimed_work_is_put_back,
    nothing_is_taken_after_the_signal,
    processes_end_as_they_say,
)
