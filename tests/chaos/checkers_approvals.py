"""What people said: I8, and I9 for approvals."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tests.chaos.checker import checker
from tests.chaos.history import ACTING, History, runs

Row = Mapping[str, Any]
_OF_A_VOTE = ("approval", "identity", "decision", "comment", "digest")


@checker("I8")
def decisions_stay(history: History) -> Iterator[str]:
    """A decision is never changed nor taken away, and each that was answered is there."""
    known: dict[str, Row] = {}
    for change in history.of("votes"):
        row, before = change.row, known.setdefault(change.row["id"], change.row)
        if change.is_deletion or any(row[name] != before[name] for name in _OF_A_VOTE):
            yield f"the vote {row['id']} of {before['identity']} was changed or taken away"
    said = {(row["approval"], row["identity"], row["decision"]) for row in known.values()}
    for call in history.calls:
        if call.what != "decide" or not call.is_good:
            continue
        about = (call.about["approval"], call.about["by"], call.about["decision"])
        if about not in said:
            yield f"{about} was answered and is not there"


@checker("I8")
def every_later_read_shows_it(history: History) -> Iterator[str]:
    """What was answered before a reading began is in it, and no reading takes back another."""
    calls = sorted(history.calls, key=lambda call: call.answered)
    known: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for call in calls:
        if call.what == "decide" and call.is_good:
            about = call.about
            known[about["approval"], about["by"]].append((call.answered, about["decision"]))
        for approval, said in call.answer.get("shown", {}).items():
            for who, decision in said.items():
                known[approval, who].append((call.answered, decision))
    for call in calls:
        for (approval, who), answers in known.items() if call.what == "approvals" else ():
            wanted = {word for at, word in answers if at < call.sent}
            shown = call.answer["shown"].get(approval)
            if shown is not None and wanted and wanted != {shown.get(who)}:
                yield f"{who} said {wanted} to {approval}, and {shown.get(who)} is read later"


@checker("I8")
def what_was_answered_is_answered_again(history: History) -> Iterator[str]:
    """A decision that is repeated with its key is answered as it was."""
    good: dict[str, float] = {}
    for call in sorted(history.calls, key=lambda call: call.answered):
        if call.what != "decide" or call.key is None or call.status is None or call.status >= 500:
            continue
        if call.is_good:
            good.setdefault(call.key, call.answered)
        elif call.sent > good.get(call.key, call.sent):
            yield f"{call.key} was recorded, and is answered {call.status} when it is repeated"


@checker("I8")
def a_rejection_is_final(history: History) -> Iterator[str]:
    """What somebody has rejected ends so, and a deploy ends rejected by somebody's word alone."""
    deploys = {change.row["id"]: change.row["deploy"] for change in history.of("approvals")}
    against = {
        deploys.get(change.row["approval"])
        for change in history.of("votes")
        if change.row["decision"] == "reject"
    }
    last = {change.row["id"]: change.row for change in history.of("deploys")}
    for deploy, row in last.items():
        if (row["outcome"] == "rejected") != (deploy in against):
            yield f"{deploy} ended {row['outcome']}; rejected by somebody: {deploy in against}"


@checker("I9")
def nothing_starts_unapproved(history: History) -> Iterator[str]:
    """A deploy acts only with the quorum of each of its rules on the digest it has then."""
    asked: dict[str, dict[str, Row]] = defaultdict(dict)
    said: dict[str, set[str]] = defaultdict(set)
    begun: set[str] = set()
    for change in history.of("approvals", "votes", "deploys"):
        row = change.row
        if change.table == "approvals":
            asked[row["deploy"]][row["id"]] = row
        elif change.table == "votes":
            if row["decision"] == "approve":
                said[row["approval"]].add(row["identity"])
        elif row.get("handed_out_at") is not None and row["id"] not in begun:
            begun.add(row["id"])
            if _has_to_be_approved(row, history):
                yield from _lacking(row, asked[row["id"]], said)


def _has_to_be_approved(row: Row, history: History) -> bool:
    passes = "approval" in (row.get("override") or ()) or row["kind"] == "rollback"
    is_asked = row.get("approval") is not None
    return (is_asked or row["environment"] in history.settings.get("gates", {})) and not passes


@checker("I9")
def no_hook_runs_unapproved(history: History) -> Iterator[str]:
    """By the ledger: as many have agreed before the first hook as the environment wants."""
    gates = history.settings.get("gates", {})
    kinds = {change.row["id"]: change.row["kind"] for change in history.of("deploys")}
    asked = {change.row["id"]: change.row["deploy"] for change in history.of("approvals")}
    said: dict[str, dict[str, float]] = defaultdict(dict)
    for change in history.of("votes"):
        if change.row["decision"] == "approve":
            deploy = asked.get(change.row["approval"], "")
            said[deploy].setdefault(change.row["identity"], change.at)
    for run in runs(history.ledger):
        first = run.first
        if first.hook not in ACTING or kinds.get(first.deploy) == "rollback":
            continue
        got = sum(at <= first.at for at in said[first.deploy].values())
        if got < gates.get(first.environment, 0):
            yield f"{first.hook} of {first.deploy} ran when {got} had agreed"


def _lacking(row: Row, asked: Mapping[str, Row], said: Mapping[str, set[str]]) -> Iterator[str]:
    standing = [one for one in asked.values() if one["digest"] == row.get("approval_digest")]
    standing = [one for one in standing if one["state"] != "void"]
    if row.get("approval") != "given" or not standing:
        yield f"{row['id']} acts, and its approval is {row.get('approval')}"
    for one in standing:
        got, wanted = len(said[one["id"]]), one["body"]["quorum"]
        if got < wanted:
            yield f"{row['id']} acts with {got} of {wanted} approvals of rule {one['rule']}"


CHECKERS = (
    decisions_stay,
    every_later_read_shows_it,
    what_was_answered_is_answered_again,
    a_rejection_is_final,
    nothing_starts_unapproved,
    no_hook_runs_unapproved,
)
