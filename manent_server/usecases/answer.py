"""Answer: what a person says to a deploy that asks; one answer, given once."""

import secrets
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from manent_server.domain import access
from manent_server.domain import question as questions
from manent_server.domain.access import Caller
from manent_server.domain.deploy import Phase, State
from manent_server.domain.errors import Conflict, Invalid
from manent_server.domain.plan import PREPARE
from manent_server.domain.question import OFFERED, Answer, Question, Reply, Topic
from manent_server.engine import asking, carrying, closing
from manent_server.store import aftermath, deploys, queue, records, work
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import inspect, once
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import AnswerRequest, IdempotencyKey

_PHASES = {
    PREPARE: Phase.PREPARING,
    "deploy": Phase.DEPLOYING,
    "verify": Phase.VERIFYING,
    "rollback": Phase.ROLLING_BACK,
}


def answer(
    desk: Desk,
    address: str,
    request: AnswerRequest,
    *,
    caller: Caller,
    key: IdempotencyKey | None = None,
) -> dict[str, Any]:
    """Answer a deploy; once all it asks about is answered, it goes on.

    Raises:
        Conflict: It asks nothing, somebody has answered, or this answer is none it takes.
        Invalid: It does not ask about this target.
    """
    desk = desk.seen_by(caller)
    mine = secrets.token_hex(8)

    def work_on(tx: Transaction) -> str:
        found = desk.deploy_for(tx, address, caller, access.RESOLVE)
        queue.lock_environment(tx, found.environment)
        row = deploys.lock(tx, found.id) or found
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        if not _was_given(row, mine):
            question = _demand_question(row)
            steps = _demand_answer(row, question, request)
            reply = Reply(mine, request.answer, caller.name, tx.now(), request.reason)
            _give(tx, desk, _Given(row, question.answered(steps, reply), steps, reply, caller))
        once.remember(tx, caller, key, row.id)
        return row.id

    return inspect.deploy(desk, once.run(desk.store, work_on))


def _was_given(row: Deploy, mine: str) -> bool:
    """Whether an earlier COMMIT of this very answer went through without an answer."""
    if not row.question:
        return False
    return any(reply.id == mine for reply in questions.load(row.question).replies.values())


def _demand_question(row: Deploy) -> Question:
    question = row.open_question
    if question is not None:
        return question
    if not row.is_live:
        raise Conflict(
            f"the deploy has ended: {row.state}, {row.outcome}",
            code="deploy_ended",
            next=f"manent show {row.id} says how",
        )
    last = questions.load(row.question).last if row.question else None
    if last is not None:
        raise Conflict(
            f"{last.by} has answered already: {last.answer}",
            code="already_answered",
            next=f"manent show {row.id} says what came of it",
            facts={"by": last.by, "answer": last.answer},
        )
    raise Conflict(
        "the deploy asks nothing",
        code="nothing_asked",
        next=f"manent explain {row.id} says what it does",
    )


def _demand_answer(row: Deploy, question: Question, request: AnswerRequest) -> tuple[str, ...]:
    """The steps the answer is about."""
    offered = offers(row, question)
    if request.answer not in offered:
        raise Conflict(
            f"{request.answer} is no answer to this: {question.detail}",
            code="answer_not_offered",
            next=f"answers: {', '.join(offered)}",
        )
    if request.target is None:
        return question.open_steps
    steps = tuple(s for s in question.open_steps if s.partition(":")[2] == request.target)
    if not steps or (question.topic == Topic.PAUSED and request.answer != Answer.SKIP):
        asked = ", ".join(question.open_steps)
        raise Invalid(
            f"target {request.target!r} cannot be answered for alone",
            next=f"it asks about {asked}; leave the target out to answer for all of it",
        )
    return steps


def offers(row: Deploy, question: Question) -> tuple[Answer, ...]:
    """What may be answered: going back is not offered to what goes back itself."""
    left = [step for step in question.open_steps if ":" in step]
    without = {Answer.ROLLBACK} if row.kind == "rollback" else set()
    if not left or _spares_nothing(row, left):
        without.add(Answer.SKIP)
    return tuple(one for one in OFFERED[question.topic] if one not in without)


def _spares_nothing(row: Deploy, steps: list[str]) -> bool:
    """Whether leaving these targets out leaves no target at all."""
    return set(row.order_body["targets"]) <= {step.partition(":")[2] for step in steps}


@dataclass(frozen=True)
class _Given:
    """An answer that is taken: the question with it, and the steps it is about."""

    row: Deploy
    question: Question
    steps: tuple[str, ...]
    reply: Reply
    caller: Caller


def _give(tx: Transaction, desk: Desk, given: _Given) -> None:
    row, reply = given.row, given.reply
    deploys.update(tx, row.id, question=questions.dump(given.question))
    if given.question.topic == Topic.UNKNOWN:
        _settle(tx, given)
        is_done = not given.question.is_open
    else:
        is_done = True
        if reply.answer in (Answer.RETRY, Answer.SKIP):
            _open_pass(tx, given)
    detail = {"answer": reply.answer, "steps": list(given.steps), "reason": reply.reason}
    deed = Deed(
        given.caller,
        "deploy.answered",
        row.id,
        row.application,
        row.environment,
        detail,
        before=row.standing,
    )
    records.write_audit(tx, deed, at=reply.at)
    if is_done:
        _go_on(tx, desk, given)


def _go_on(tx: Transaction, desk: Desk, given: _Given) -> None:
    row = given.row
    # The time in which a person was asked does not count.
    deadline = asking.later(row.deadline_at, given.question, at=given.reply.at)
    deploys.update(tx, row.id, deadline_at=deadline)
    phase = _PHASES[given.question.steps[0].partition(":")[0]]
    desk.dispatcher.dispatch(tx, row.id, state=State.PENDING, phase=phase)


def _settle(tx: Transaction, given: _Given) -> None:
    """What a person says of work that was cut short is how its step ended, or that it runs."""
    row, reply = given.row, given.reply
    for step in given.steps:
        attempt = aftermath.last_begun(tx, row.id, step)
        if attempt is not None:
            aftermath.resolve_attempt(tx, attempt.id, reply.answer)
        work.update_step(tx, row.id, row.pass_number, step, **_ending(reply))
    if reply.answer == Answer.FAILED:
        words = f"{', '.join(given.steps)} was resolved as failed by {reply.by}"
        closing.lock(tx, row, words, at=reply.at)


def _ending(reply: Reply) -> dict[str, Any]:
    if reply.answer == Answer.SUCCEEDED:
        return {"state": "succeeded", "ended_at": reply.at, "error": None}
    if reply.answer == Answer.FAILED:
        error = {"code": "resolved", "message": f"resolved as failed by {reply.by}"}
        return {"state": "failed", "ended_at": reply.at, "error": error}
    return {"state": "waiting", "next_try_at": None}


def _open_pass(tx: Transaction, given: _Given) -> None:
    """The next pass of the same deploy: what is finished is carried over with its results."""
    row = given.row
    source = carrying.read(tx, row)
    for step in source.rows.values():
        if step.ended_at is None:
            state = "skipped" if step.started_at is None else "failed"
            values = {"state": state, "ended_at": given.reply.at}
            work.update_step(tx, row.id, row.pass_number, step.name, **values)
    number = deploys.next_pass(tx, row.root)
    # Targets that were left out before stay out.
    carried = {name: source.rows[name] for name in source.kept} | {
        name: step for name, step in source.rows.items() if step.state == "skipped"
    }
    if given.reply.answer == Answer.SKIP:
        targets = {step.partition(":")[2] for step in given.steps}
        carried |= {
            name: replace(step, **_left_out(given.reply.at))
            for name, step in source.rows.items()
            if step.target in targets and name not in carried
        }
    deploys.update(tx, row.id, pass_number=number)
    if row.rerun_of is not None and PREPARE not in carried:
        # Recorded by `prepare`, which looks anew for what the deploy it reruns has left.
        return
    work.write_steps(tx, replace(row, pass_number=number), source.plan.steps(), carried=carried)


def _left_out(at: datetime) -> dict[str, Any]:
    return {"state": "skipped", "outputs": None, "error": None, "ended_at": at}
