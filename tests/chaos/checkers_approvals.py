"""What people said: I8, and I9 for approvals."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tests.chaos.checker import checker
from tests.chaos.history import History

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
            if _has_to_be_approved(row):
                yield from _lacking(row, asked[row["id"]], said)


def _has_to_be_approved(row: Row) -> bool:
    passes = "approval" in (row.get("override") or ()) or row["kind"] == "rollback"
    return row.get("approval") is not None and not passes


def _lacking(row: Row, asked: Mapping[str, Row], said: Mapping[str, set[str]]) -> Iterator[str]:
    standing = [one for one in asked.values() if one["digest"] == row["approval_digest"]]
    standing = [one for one in standing if one["state"] != "void"]
    if row["approval"] != "given" or not standing:
        yield f"{row['id']} acts, and its approval is {row['approval']}"
    for one in standing:
        got, wanted = len(said[one["id"]]), one["body"]["quorum"]
        if got < wanted:
            yield f"{row['id']} acts with {got} of {wanted} approvals of rule {one['rule']}"


CHECKERS = (decisions_stay, a_rejection_is_final, nothing_starts_unapproved)
