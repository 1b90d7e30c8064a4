"""The chainer: committed records get their numbers, without a hole, and the hash of all before."""

from typing import Final

from manent_server.store import audit
from manent_server.usecases.desk import Desk

_BATCH: Final = 1000


def chain(desk: Desk) -> None:
    """Chain what was committed since the last round."""
    with desk.store.read() as tx:
        if not audit.has_waiting(tx):
            return
    while desk.store.once(lambda tx: audit.chain(tx, limit=_BATCH)) == _BATCH:
        continue
