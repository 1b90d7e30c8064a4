"""Retry: an ended deploy as a new one, or the next pass of one that waits for a person."""

from typing import Any

from manent_server.domain.access import Caller
from manent_server.domain.question import Answer
from manent_server.usecases import answer, inspect, once, rerun
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import AnswerRequest, IdempotencyKey, RerunRequest


def retry(
    desk: Desk,
    address: str,
    request: RerunRequest,
    *,
    caller: Caller,
    key: IdempotencyKey | None = None,
) -> dict[str, Any]:
    """Do again what did not succeed.

    Raises:
        Conflict: It neither has ended nor waits for a person.
    """
    desk = desk.seen_by(caller)
    with desk.store.read() as tx:
        known = once.remembered(tx, caller, key)
        row = desk.deploy(tx, address)
    if known is not None:
        return inspect.deploy(desk, known)
    if row.open_question is None:
        return rerun.rerun(desk, address, request, caller=caller, key=key)
    said = AnswerRequest(Answer.RETRY, reason=request.reason)
    return answer.answer(desk, row.id, said, caller=caller, key=key)
