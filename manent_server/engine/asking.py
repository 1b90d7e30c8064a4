"""Asking: a deploy that only a person can go on with, until the answer is given."""

from datetime import datetime

from manent_server.domain import question as questions
from manent_server.domain.deploy import Phase
from manent_server.domain.plan import Step
from manent_server.domain.question import Answer, Question, Topic
from manent_server.engine.handout import is_current
from manent_server.engine.run import Asked, Run
from manent_server.engine.stepper import CANCELLED, Outcome
from manent_server.store import deploys, records
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction

# Failures that a further try would not help against, or that a person has answered for.
_SETTLED = frozenset({"deadline", "cancelled", "resolved"})


def ask(tx: Transaction, run: Run, asked: Asked) -> None:
    """Let go of the deploy: its slot stays, and nothing but an answer or a cancel goes on."""
    row = deploys.lock(tx, run.deploy.id)
    if row is None or not is_current(row, run.deploy):
        return
    at = tx.now()
    if row.cancel_requested_at is not None:
        # It came just now and finds nobody to tell: it is looked at at once.
        deploys.update(tx, row.id, executor=None, incarnation=None)
        records.wake(tx, row.id, at, "cancel")
        return
    question = Question(asked.topic, row.pass_number, asked.steps, asked.detail, at)
    deploys.update(
        tx,
        row.id,
        phase=Phase(asked.topic),
        question=questions.dump(question),
        executor=None,
        incarnation=None,
    )
    detail = {"topic": asked.topic, "steps": list(asked.steps), "detail": asked.detail}
    deed = Deed(
        "manent",
        "deploy.asked",
        row.id,
        row.application,
        row.environment,
        detail,
        before=row.standing,
        after={"state": row.state, "phase": asked.topic},
    )
    records.write_audit(tx, deed, at=at)


def joined(asked: list[Asked]) -> Asked:
    """One question for what was asked side by side."""
    steps = tuple(sorted(step for one in asked for step in one.steps))
    return Asked(asked[0].topic, steps, "; ".join(one.detail for one in asked))


def decision(deploy: Deploy) -> Answer | None:
    """What a person decided about the failure of this pass."""
    if not deploy.question:
        return None
    question = questions.load(deploy.question)
    is_this = question.topic == Topic.PAUSED and question.pass_number == deploy.pass_number
    return question.last.answer if is_this and question.last is not None else None


def demand_decision(run: Run, failure: Outcome) -> None:
    """Where steps that used up their tries wait for a person: ask, unless that was done.

    Raises:
        Asked: A person decides.
    """
    code = (failure.error or {}).get("code")
    is_over = failure is CANCELLED or run.control.is_cancelled or code in _SETTLED
    if not run.order.pauses or is_over or decision(run.deploy) is not None:
        return
    rows = run.steps()
    forward = [step for step in run.plan.steps() if rows[step.name].state == "failed"]
    if not forward or any(name not in _names(run) for name in rows):
        return  # it is being undone already
    raise Asked(Topic.PAUSED, tuple(step.name for step in forward), _why(forward, failure))


def _names(run: Run) -> frozenset[str]:
    return frozenset(step.name for step in run.plan.steps())


def _why(steps: list[Step], failure: Outcome) -> str:
    message = (failure.error or {}).get("message", "")
    return f"{', '.join(step.name for step in steps)} failed for good: {message}"


def later(deadline: datetime | None, question: Question, *, at: datetime) -> datetime | None:
    """The deadline without the time in which a person was asked."""
    return None if deadline is None else deadline + (at - question.asked_at)
