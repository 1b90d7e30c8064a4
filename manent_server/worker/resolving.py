"""Resolving: before people are asked it is found out what they are asked about.

One worker at a time does it for all deploys that wait for it. What lies elsewhere is fetched by a
few threads: however slow one place is, the others are asked for, and the lease goes on.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial

from manent_server.domain import approval
from manent_server.domain import order as orders
from manent_server.domain.awaiting import Stage
from manent_server.domain.deploy import Outcome, Phase
from manent_server.domain.errors import ManentError, Unavailable
from manent_server.engine import asking_again, closing, resolution
from manent_server.engine.closing import Ending
from manent_server.engine.resolution import Digest, Resolved, Sources
from manent_server.observability.redaction import Redactor
from manent_server.store import approvals, deploys, records
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.store.workers import LeaseLost
from manent_server.usecases.desk import Desk
from manent_server.worker.lookout import Lookout
from manent_server.worker.loops import Job

LEASE = "resolving"
EVERY = timedelta(milliseconds=500)
_log = logging.getLogger(__name__)
_BATCH = 200
_THREADS = 4
_SHORTEST, _LONGEST = timedelta(seconds=2), timedelta(minutes=1)
_GATE = "gate"


def job(digest: Digest, redactor: Redactor, lookout: Lookout) -> Job:
    """The loop of every worker process.

    Args:
        digest: Finds the digest of an artifact.
        redactor: Takes secrets out of what is told of failures.
        lookout: Says whether something waits for it.
    """

    def make(desk: Desk) -> Callable[[], object]:
        mine = Resolving(desk, digest, redactor)
        return lookout.when(lambda seen: seen.unresolved or mine.is_fetching, mine.round)

    return Job(LEASE, EVERY, make)


class Resolving:
    """Rounds of one process."""

    def __init__(self, desk: Desk, digest: Digest, redactor: Redactor) -> None:
        self._desk = desk
        self._digest = digest
        self._redactor = redactor
        self._fetching: dict[str, tuple[Deploy, Future[Resolved]]] = {}
        self._pool: ThreadPoolExecutor | None = None

    @property
    def is_fetching(self) -> bool:
        """Whether something is on its way here."""
        return bool(self._fetching)

    def round(self) -> int:
        """Ask about what is found out, begin with what is due; how many were asked about."""
        asked = self._collect()
        while True:
            with self._desk.store.read() as tx:
                due = approvals.unresolved(tx, at=tx.now(), limit=_BATCH, without=self._fetching)
            for row in due:
                asked += self._begin(row)
            if len(due) < _BATCH:
                return asked

    def wait(self) -> None:
        """Let what is being fetched come in."""
        for _, future in self._fetching.values():
            future.exception()

    def _begin(self, row: Deploy) -> bool:
        if row.order_body.get("artifact") is None:
            return self._settle(row, lambda: self._find(row))
        self._pool = self._pool or ThreadPoolExecutor(_THREADS, thread_name_prefix="resolving")
        self._fetching[row.id] = (row, self._pool.submit(self._find, row))
        return False

    def _collect(self) -> int:
        done = [name for name, (_, future) in self._fetching.items() if future.done()]
        asked = 0
        for name in done:
            row, future = self._fetching[name]
            # Kept until it is written: a lease that is lost on the way may come back.
            asked += self._settle(row, future.result)
            del self._fetching[name]
        return asked

    def _find(self, row: Deploy) -> Resolved:
        def read(deploy: str) -> Deploy | None:
            with self._desk.store.read() as tx:
                return deploys.read(tx, deploy)

        order = orders.load(row.order_body)
        return resolution.resolve(row, order, Sources(read, self._digest))

    def _settle(self, row: Deploy, find: Callable[[], Resolved]) -> bool:
        """Ask about one; what is wrong with it keeps no other waiting."""
        try:
            found = find()
            return self._desk.store.once(partial(_ask, row=row, found=found))
        except (LeaseLost, Unavailable):
            raise
        except ManentError as error:
            self._put_off(row, error.detail, error.code)
        except Exception as error:  # noqa: BLE001 - logged whole; the others go on
            _log.exception("what deploy %s would bring cannot be resolved", row.id)
            self._put_off(row, f"{type(error).__name__}: the log of the worker says more", "error")
        return False

    def _put_off(self, row: Deploy, message: str, code: str) -> None:
        error = {"code": code, "message": self._redactor.redact(message)}
        self._desk.store.once(partial(_put_off, row=row, error=error))


def _is_still(row: Deploy | None, before: Deploy) -> bool:
    """Whether it still waits for this, under the order that was looked at."""
    return (
        row is not None
        and row.is_live
        and row.approval == Stage.RESOLVING
        and row.handed_out_at is None
        and (row.order_digest, row.version) == (before.order_digest, before.version)
    )


def _ask(tx: Transaction, *, row: Deploy, found: Resolved) -> bool:
    now = deploys.lock(tx, row.id)
    if now is None or not _is_still(now, row):
        return False
    asking_again.ask(tx, now, found)
    deploys.update(tx, now.id, phase=Phase.AWAITING_APPROVAL)
    # A look at once sets its alarm and says what else it waits for.
    records.wake(tx, now.id, tx.now(), _GATE)
    return True


def _put_off(tx: Transaction, *, row: Deploy, error: dict[str, str]) -> None:
    """Try again later, each time after a longer while; past its time the waiting ends."""
    now = deploys.lock(tx, row.id)
    if now is None or not _is_still(now, row):
        return
    at = tx.now()
    last = approval.shortest(approval.load(now.order_body.get("approvals")))
    if last is not None and now.requested_at + last <= at:
        message = f"what was to be approved could not be resolved in time: {error['message']}"
        end = {"code": "approval_expired", "message": message}
        closing.close(tx, Ending(now.id, None, Outcome.EXPIRED, error=end))
        return
    kept = dict(now.resolved or {})
    tries = int((kept.get("error") or {}).get("tries", 0)) + 1
    wait = min(_SHORTEST * 2 ** min(tries - 1, 10), _LONGEST)
    trouble = kept | {"error": {**error, "tries": tries}}
    deploys.update(tx, now.id, approval_at=at + wait, resolved=trouble)
