"""What the engine calls for a dispatch: prelude, walk, and a clean leave."""

import logging
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

from manent_server.domain import order as orders
from manent_server.domain import plan
from manent_server.domain.deploy import Kind
from manent_server.engine import asking
from manent_server.engine.control import Control, Watch
from manent_server.engine.logbook import Logbook
from manent_server.engine.passage import Passage
from manent_server.engine.prelude import Claim, Start, Verdict, begin
from manent_server.engine.run import Asked, GivenBack, Parked, Run, wake
from manent_server.engine.shop import Outrun, Shop, Unwound
from manent_server.observability import log
from manent_server.observability.trace import Note
from manent_server.store import traces
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction

_log = logging.getLogger(__name__)
_POLL = timedelta(milliseconds=500)


class Trials:
    """The worker's one place for a dispatch of a deploy that may be what kills its workers."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: tuple[str, int] | None = None

    def take(self, deploy: str, number: int) -> bool:
        """Whether the place is this dispatch's, now if it was free."""
        with self._guard:
            if self._held is None:
                self._held = (deploy, number)
            return self._held == (deploy, number)

    def leave(self, deploy: str, number: int) -> None:
        """Free the place if it is this dispatch's."""
        with self._guard:
            if self._held == (deploy, number):
                self._held = None


class Journey:
    """Runs dispatches on this worker."""

    def __init__(self, shop: Shop, watch: Watch) -> None:
        self._shop = shop
        self._watch = watch
        self._trials = Trials()

    def __call__(self, deploy: str, number: int) -> None:
        """One dispatch, from its prelude to the close or to whoever goes on with it.

        Raises:
            Unwound: The run ended without an outcome; the engine records nothing.
        """
        with log.bound(deploy=deploy, dispatch=number):
            try:
                self._start(deploy, number)
            finally:
                self._trials.leave(deploy, number)

    def _start(self, deploy: str, number: int) -> None:
        start = self._begin(deploy, number)
        if start.verdict != Verdict.RUN or start.deploy is None:
            _log.info("dispatch %s.%s is not run: %s", deploy, number, start.verdict)
            return
        with log.bound(epoch=start.deploy.epoch), self._span(start.deploy):
            self._run(start.deploy, start)

    def _span(self, deploy: Deploy) -> AbstractContextManager[Note]:
        """This dispatch in the trace of the request that asked for the deploy."""
        shop = self._shop
        if not shop.tracer.is_on:
            return shop.tracer.span("deploy")
        parent = shop.store.consult(
            lambda tx: traces.of_deploy(tx, deploy.id), stop=shop.lifeline.is_cut
        )
        return shop.tracer.span(
            "deploy",
            parent=parent,
            deploy=deploy.id,
            application=deploy.application,
            environment=deploy.environment,
            version=deploy.version,
            epoch=deploy.epoch,
        )

    def _begin(self, deploy: str, number: int) -> Start:
        shop = self._shop
        while shop.lifeline.is_fenced and not shop.lifeline.is_cut():
            time.sleep(_POLL.total_seconds())

        def work(tx: Transaction) -> Start:
            draining = shop.lifeline.draining.is_set()
            claim = Claim(
                deploy,
                number,
                shop.identity,
                is_draining=draining,
                plugins=shop.host.names(),
                version=shop.identity.version,
                may_try=lambda: self._trials.take(deploy, number),
                max_recoveries=shop.max_recoveries,
            )
            return begin(tx, claim, shop.dispatcher)

        start = shop.store.repeat(work, stop=shop.lifeline.is_cut)
        if start.verdict == Verdict.CLOSED and start.deploy is not None:
            shop.admit(start.deploy.environment)
        return start

    def _run(self, deploy: Deploy, start: Start) -> None:
        run = self._new(deploy, is_trial=start.is_trial)
        run.control.deadline_at = deploy.deadline_at
        # Known before the first wait: the watch needs a second to say so.
        run.control.is_overdue = start.is_overdue
        self._watch.add(run.control)
        try:
            self._walk(run)
        except Parked as parked:
            waiting = parked
            self._let_go(run, lambda tx: wake(tx, run, waiting))
        except Asked as asked:
            question = asked
            run.logbook.say(f"waits for a person: {asked.detail}")
            self._let_go(run, lambda tx: asking.ask(tx, run, question))
        except GivenBack:
            run.logbook.abandon()
            self._shop.admit(deploy.environment)
        except Unwound as end:
            # The next owner writes from here on; what this run still holds may be stored first.
            self._leave(run)
            self._count(end)
            raise
        except Exception as error:
            # Not a failed hook: the deploy stays live and the reconciler dispatches it anew.
            _log.exception("deploy %s was left by an unexpected error", deploy.id)
            raise Unwound(deploy.id) from error
        finally:
            self._watch.remove(run.control)
            run.logbook.close()
            shutil.rmtree(run.folder, ignore_errors=True)

    def _new(self, deploy: Deploy, *, is_trial: bool) -> Run:
        shop = self._shop
        order = orders.load(deploy.order_body)
        steps = plan.build(order, Kind(deploy.kind))
        control = Control(deploy.id, deploy.epoch, grace=shop.caps.kill_grace)
        if deploy.cancel_requested_at is not None:
            control.note_cancel(rollback=deploy.cancel_rollback)
        return Run(shop, deploy, order, steps, control, Logbook(shop, deploy), is_trial)

    def _walk(self, run: Run) -> None:
        run.logbook.say(f"runs on {self._shop.identity.executor}, epoch {run.deploy.epoch}")
        Passage(run).walk()

    def _let_go(self, run: Run, leave: Callable[[Transaction], None]) -> None:
        """End the dispatch of a deploy that waits; what it said is stored first."""
        run.logbook.close()
        self._shop.store.repeat(leave, stop=self._shop.lifeline.lost.is_set)

    def _count(self, end: Unwound) -> None:
        if isinstance(end, Outrun):
            _log.warning("what would have been written is dropped: the deploy is another run's")
            self._shop.metrics.stale_write()

    def _leave(self, run: Run) -> None:
        if run.control.is_disowned or run.shop.lifeline.lost.is_set():
            run.logbook.abandon()
        elif run.shop.lifeline.cut.is_set():
            # The drain is over while it waited between attempts: any worker may go on at once.
            run.put_back()
