"""Deliver: tell one sink what it waits for, one notice after the other."""

import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol

from manent_server.domain import notice as rules
from manent_server.domain.events import NOTICE_FAILED
from manent_server.domain.notice import NoticeState, Try, Verdict
from manent_server.store import notices, records
from manent_server.store.notices import Notice, Result
from manent_server.store.records import Deed
from manent_server.store.transaction import Store, Transaction
from manent_server.usecases import sinks
from manent_server.usecases.desk import Desk
from manent_server.usecases.sinks import Sink

_log = logging.getLogger(__name__)
_random = random.SystemRandom()
_SLACK: Final = timedelta(seconds=5)
"""How long after a try's limit another process may take its notice for forgotten."""


_LONGEST_REST: Final = timedelta(seconds=30)


@dataclass(frozen=True)
class Receipt:
    """What came of sending: the status of the answer, or why there is none.

    `retry_after` is as the receiver wrote it.
    """

    status: int | None
    error: str | None = None
    retry_after: str | None = None


class Carrier(Protocol):
    """How a sink is told; it never raises, and takes no longer than `limit`."""

    @property
    def limit(self) -> timedelta:
        """How long one try takes at most."""

    def lacking(self) -> str | None:
        """What is missing on this side, so that nothing could be sent; None: nothing."""

    def carry(self, notice: Notice, *, at: datetime) -> Receipt:
        """Tell the sink of the event; `at` is now, by the database's clock."""


class Courier:
    """Serves one sink of this process.

    Args:
        desk: For whoever may write only while the sink's lease holds.
        store: For writing down what happened, which no lease has to allow.
        name: Of the sink.
        carrier: Gives the way to tell it, by today's configuration.
    """

    def __init__(
        self, desk: Desk, store: Store, name: str, carrier: Callable[[], Carrier | None]
    ) -> None:
        self._desk = desk
        self._store = store
        self._name = name
        self._carrier = carrier
        self.is_stopping: Callable[[], bool] = lambda: False
        self.clock: Callable[[], float] = time.monotonic
        self._failures = 0
        self._rests_until = float("-inf")

    def round(self) -> None:
        """Tell the sink all that is due, until it does not take something.

        A receiver that cannot take anything is left alone for a while, however much waits for it:
        one try of each notice would be a flood of tries.
        """
        if self.clock() < self._rests_until:
            return
        carrier = self._carrier()
        sink = next((one for one in sinks.known(self._desk) if one.name == self._name), None)
        if carrier is None or sink is None or not self._is_due():
            return
        lacking = carrier.lacking()
        if lacking is not None:
            self._wait_for(sink, lacking)
            return
        while not self.is_stopping():
            taken = self._take(carrier)
            if taken is None or not self._tell(sink, carrier, *taken):
                return

    def _is_due(self) -> bool:
        with self._desk.store.read() as tx:
            return notices.is_due(tx, self._name)

    def _take(self, carrier: Carrier) -> tuple[Notice, datetime] | None:
        def work(tx: Transaction) -> tuple[Notice, datetime] | None:
            at = tx.now()
            found = notices.take(tx, self._name, until=at + carrier.limit + _SLACK)
            return (found, at) if found else None

        return self._desk.store.once(work)

    def _tell(self, sink: Sink, carrier: Carrier, notice: Notice, at: datetime) -> bool:
        """One try; whether the sink took it, so that more may follow at once."""
        receipt = carrier.carry(notice, at=at)
        state = self._store.repeat(
            lambda tx: _settle(tx, sink, notice, receipt), stop=self.is_stopping
        )
        self._rest(sink, receipt)
        self._desk.metrics.notice(self._name, state)
        if state != NoticeState.DELIVERED:
            _log.warning("notice %s of sink %s: %s", notice.id, self._name, _words(receipt))
        return state == NoticeState.DELIVERED

    def _wait_for(self, sink: Sink, lacking: str) -> None:
        """Nobody was asked, so no notice has used up a try or any of its time."""

        def work(tx: Transaction) -> int:
            lasts = sink.retrying.total
            return notices.prolong(tx, sink.name, lacking, at=tx.now(), lasts=lasts)

        self._store.repeat(work, stop=self.is_stopping)
        self._rest(sink, Receipt(None, lacking))
        _log.warning("nothing can be sent to sink %s: %s", sink.name, lacking)

    def _rest(self, sink: Sink, receipt: Receipt) -> None:
        self._failures = self._failures + 1 if rules.is_down(receipt.status) else 0
        if self._failures:
            pause = min(rules.pause(sink.retrying, self._failures), _LONGEST_REST)
            self._rests_until = self.clock() + pause.total_seconds()


def _settle(tx: Transaction, sink: Sink, notice: Notice, receipt: Receipt) -> str:
    at = tx.now()
    tried = Try(
        number=notice.tries,
        status=receipt.status,
        at=at,
        expires_at=notice.expires_at,
        retry_after=retry_after(receipt.retry_after, at=at),
        chance=_random.random(),
    )
    verdict = rules.verdict(sink.retrying, tried)
    error = None if verdict.state == NoticeState.DELIVERED else _words(receipt)
    result = Result(verdict.state, verdict.next_try_at, receipt.status, error)
    if notices.settle(tx, notice, result, at=at):
        _record(tx, notice, verdict, error, at)
    return verdict.state


def _record(
    tx: Transaction, notice: Notice, verdict: Verdict, error: str | None, at: datetime
) -> None:
    """What a person should know: that somebody was not told, or wants no more."""
    if verdict.turns_off:
        reason = error or ""
        if not notices.turn_off(tx, notice.sink, reason, at=at):
            return
        why = f"the sink is off: {reason}"
        dropped = notices.kill_waiting(tx, notice.sink, why, at=at)
        detail = {"sink": notice.sink, "reason": reason, "dropped": dropped}
        before, after = {"is_on": True}, {"is_on": False}
        deed = Deed("manent", "sink.off", detail=detail, before=before, after=after)
        records.write_audit(tx, deed, at=at)
    elif verdict.state == NoticeState.DEAD:
        records.write_audit(tx, _failed(notice, error), at=at)


def _failed(notice: Notice, error: str | None) -> Deed:
    event = notice.event
    detail: Mapping[str, Any] = {
        "sink": notice.sink,
        "notice": notice.id,
        "event": event.id,
        "type": event.type,
        "tries": notice.tries,
        "error": error,
    }
    place = (event.deploy, event.application, event.environment)
    return Deed("manent", NOTICE_FAILED, *place, detail)


def _words(receipt: Receipt) -> str:
    return receipt.error or rules.shown_status(receipt.status)


def retry_after(text: str | None, *, at: datetime) -> timedelta | None:
    """What a `Retry-After` asks for: seconds, or an instant. None for anything else.

    Args:
        text: As it was sent.
        at: Now.
    """
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:9]), 10**8))
    try:
        instant = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(timedelta(0), instant.replace(tzinfo=instant.tzinfo or UTC) - at)
