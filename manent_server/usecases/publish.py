"""Publish: committed events get their positions, and each sink what it is to be told."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from manent_server.domain.notice import Interest
from manent_server.store import chats, events, notices
from manent_server.store.events import Numbered
from manent_server.store.notices import Draft, Off
from manent_server.store.transaction import Transaction
from manent_server.usecases import count, sinks
from manent_server.usecases.desk import Desk
from manent_server.usecases.sinks import Sink

KEPT: Final = timedelta(days=7)
"""How long an event can be read again."""
OWED: Final = timedelta(days=30)
"""How long one is kept that some sink was not told of."""
APPROVAL: Final = "approval."
_BATCH: Final = 500
_GRACE: Final = timedelta(hours=1)


def publish(desk: Desk) -> int:
    """Number what was committed since the last round; how many events that were."""
    with desk.store.read() as tx:
        if not events.has_unnumbered(tx):
            return 0
    known = sinks.known(desk)
    return desk.store.once(lambda tx: _publish(tx, known))


def _publish(tx: Transaction, known: Sequence[Sink]) -> int:
    numbered = events.number(tx, limit=_BATCH)
    if numbered:
        count.count(tx, numbered)
    if numbered and known:
        at, off = tx.now(), notices.off(tx)
        drafts = [
            draft for sink in known for draft in _drafts(sink, _of(tx, sink, numbered), off, at)
        ]
        notices.insert(tx, drafts, at=at)
    return len(numbered)


def _of(tx: Transaction, sink: Sink, numbered: Sequence[Numbered]) -> Sequence[Numbered]:
    """Of the events of deploys a chat is told only those of deploys it shows.

    One that is not shown yet is read whole when it comes to be.
    """
    if sink.chat is None:
        return numbered
    named = {one.event.deploy for one in numbered if one.event.deploy is not None}
    shown = chats.shown(tx, sink.chat, sorted(named))
    return [
        one for one in numbered if one.event.deploy in shown or one.event.type.startswith(APPROVAL)
    ]


def _drafts(
    sink: Sink, numbered: Sequence[Numbered], off: Mapping[str, Off], at: datetime
) -> list[Draft]:
    interest: Interest = sink.interest
    error = f"the sink is off: {off[sink.name].reason}" if sink.name in off else None
    return [
        Draft(sink.name, one.entry, at + sink.retrying.total, error)
        for one in numbered
        if interest.wants(one.event)
    ]


def forget(desk: Desk) -> None:
    """Remove what nobody can read again; end notices that nobody sends."""

    def work(tx: Transaction) -> int:
        at = tx.now()
        notices.expire(tx, before=at - _GRACE)
        return events.forget(tx, before=at - KEPT, owed_before=at - OWED, limit=_BATCH)

    while desk.store.once(work) == _BATCH:
        continue
