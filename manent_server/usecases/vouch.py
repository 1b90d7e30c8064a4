"""Vouch: what ends because a person says that its worker is down."""

from collections.abc import Sequence

from manent_server.store import work, workers
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.store.work import Attempt
from manent_server.store.workers import Executor
from manent_server.usecases import executors
from manent_server.usecases.desk import Desk

_PERSON = ("user:", "local:")


def is_word(recovered_by: str | None) -> bool:
    """Whether a claim is a person's: ids of executors hold no colon."""
    return (recovered_by or "").startswith(_PERSON)


def end_left(tx: Transaction, desk: Desk, row: Deploy, *, by: str) -> list[Attempt]:
    """End on a person's word what lost executors left of a deploy and no lease will end.

    Returns:
        The attempts that were ended.
    """
    left = work.open_attempts(tx, place=(row.environment, row.application))
    mine = [one for one in left if one.deploy == row.id and one.lease_until is None]
    lost = [one for one in mine if executors.is_gone(tx, desk, one.executor, one.incarnation)]
    for name in {one.executor for one in lost}:
        its = [one for one in lost if one.executor == name]
        end_on_word(tx, its, workers.read(tx, name), by=by)
    return lost


def end_on_word(
    tx: Transaction, attempts: Sequence[Attempt], row: Executor | None, *, by: str
) -> None:
    """End attempts of one lost executor because a person says that it is down.

    Args:
        tx: The transaction.
        attempts: Open ones of that executor.
        row: The executor as the registry has it, if it does.
        by: Who says so.
    """
    stopped = row.incarnation if row is not None and row.stopped_at is not None else None
    for died in (True, False):
        mine = [one for one in attempts if (one.incarnation != stopped) == died]
        if mine:
            message = f"{mine[0].executor} is lost; taken as ended on the word of {by}"
            work.end_all_lost(tx, [one.id for one in mine], died=died, message=message)
