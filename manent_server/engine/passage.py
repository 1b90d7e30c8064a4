"""The way through a plan: prepare, wave by wave, and back again if it fails."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from manent_server.domain import gates, outcome, plan
from manent_server.domain.deploy import Outcome as End
from manent_server.domain.deploy import Phase
from manent_server.domain.outcome import Passed, Undoing
from manent_server.domain.plan import Step, Visit, Wave
from manent_server.domain.question import Answer
from manent_server.engine import aim as aims
from manent_server.engine import asking, closing, soaking
from manent_server.engine.closing import Close, Ending
from manent_server.engine.handout import is_current
from manent_server.engine.preparation import prepare
from manent_server.engine.run import LONG_WAIT, Asked, Parked, Run
from manent_server.engine.shop import Unwound, too_late
from manent_server.engine.stepper import CANCELLED, Outcome, Stepper
from manent_server.store import deploys, facts, work
from manent_server.store.transaction import Transaction
from manent_server.store.work import StepRow

_RECHECK = timedelta(minutes=1)


class Passage:
    """Walks one run to its end; what is recorded is never done again."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def walk(self) -> None:
        """Every step, then the close."""
        failure = self._forward()
        if failure is not None:
            asking.demand_decision(self._run, failure)
        passed, error = self._come_to(failure)
        self._close(outcome.name(passed), error)

    def _forward(self) -> Outcome | None:
        """The first failure, or None when every step succeeded."""
        prepared = prepare(self._run)
        if not prepared.is_good:
            return prepared
        for wave in self._run.plan.waves:
            if wave.number > 1 and not self._is_begun(wave):
                self._wait_for_gates()
            if self._run.control.is_cancelled and not self._is_done(wave):
                return CANCELLED
            failure = self._visit(wave)
            if failure is not None:
                return failure
            if wave.soak is not None and not self._soak(wave.soak):
                return CANCELLED
        return None

    def _is_begun(self, wave: Wave) -> bool:
        rows = self._run.steps()
        return any(rows[s.name].started_at for visit in wave.visits for s in visit.steps)

    def _is_done(self, wave: Wave) -> bool:
        rows = self._run.steps()
        return all(rows[s.name].ended_at for visit in wave.visits for s in visit.steps)

    def _visit(self, wave: Wave) -> Outcome | None:
        """Targets side by side; after a failure no further one is begun."""
        failures = self._failed_before(wave)
        if failures:
            return failures[0]

        asked: list[Asked] = []
        try:
            self._side_by_side(partial(self._go_to, failures, asked), wave.visits)
        except Parked:
            # A failure beside it decides; what waited for its next try is not tried again.
            if not failures and not asked:
                raise
        if asked:
            raise asking.joined(asked)
        return failures[0] if failures else None

    def _go_to(self, failures: list[Outcome], asked: list[Asked], visit: Visit) -> None:
        """One target; `failures` and `asked` are shared by the wave."""
        try:
            self._steps_of(visit, failures, asked)
        except Asked as question:
            asked.append(question)

    def _steps_of(self, visit: Visit, failures: list[Outcome], asked: list[Asked]) -> None:
        for step in visit.steps:
            if failures or asked:
                return
            aim = aims.forward(self._run, step)
            stepper = Stepper(self._run, step, aim, is_undo=False, is_halted=lambda: bool(failures))
            ended = stepper.perform()
            if not ended.is_good:
                failures.append(_named(ended, step))

    def _failed_before(self, wave: Wave) -> list[Outcome]:
        """Steps that failed before this dispatch began: nothing is begun beside them."""
        rows = self._run.steps()
        return [
            Outcome(is_good=False, error={"step": step.name, **(rows[step.name].error or {})})
            for visit in wave.visits
            for step in visit.steps
            if rows[step.name].state == "failed"
        ]

    def _side_by_side(self, work_on: Callable[[Visit], None], visits: Sequence[Visit]) -> None:
        if len(visits) == 1:
            work_on(visits[0])
            return
        width = min(self._run.order.limits.max_parallel, len(visits))
        name = f"wave {self._run.deploy.id}"
        with ThreadPoolExecutor(max_workers=width, thread_name_prefix=name) as pool:
            futures = [pool.submit(copy_context().run, work_on, visit) for visit in visits]
            wait(futures, return_when=FIRST_EXCEPTION)
        _raise_first(futures)

    def _wait_for_gates(self) -> None:
        """Between waves: a stop, and locks set since the start, hold the next one back."""
        run = self._run
        place = run.ask(lambda tx: facts.read(tx, run.deploy.environment))
        at = place.at
        closed = gates.stopping(run.deploy.asked, place)
        due = run.control.deadline_at or at + _RECHECK
        # Past the deadline the next hand-out is refused, and the deploy fails as it should.
        if not closed or run.control.is_cancelled or due <= at:
            return
        self._phase(closed[0].phase)
        run.logbook.say(f"waits before the next wave: {closed[0].detail}")
        raise Parked(min(closed[0].opens_at or due, due, at + _RECHECK), "gate")

    def _soak(self, step: Step) -> bool:
        """Wait after a wave; False if a cancel ended it. Its time does not count."""
        run = self._run
        while True:
            run.check()
            # A person may end it meanwhile: it is read anew each time.
            row = run.ask(partial(self._read_soak, step)) or run.steps()[step.name]
            if row.ended_at is not None:
                return row.state == "succeeded"
            run.write(lambda tx: self._begin_soak(tx, step))
            at = run.now()
            ends_at = (row.started_at or at) + run.order.limits.soak
            if run.control.is_cancelled:
                return False
            if ends_at <= at:
                run.write(lambda tx: self._end_soak(tx, step))
            elif ends_at - at > LONG_WAIT:
                raise Parked(ends_at, "soak")
            else:
                run.pause(min(ends_at - at, timedelta(seconds=1)))

    def _read_soak(self, step: Step, tx: Transaction) -> StepRow | None:
        deploy = self._run.deploy
        return work.read_step(tx, deploy.id, deploy.pass_number, step.name)

    def _begin_soak(self, tx: Transaction, step: Step) -> None:
        deploy = self._run.deploy
        row = deploys.lock(tx, deploy.id)
        if row is None or not is_current(row, deploy):
            raise too_late(row, deploy)
        before = work.read_step(tx, row.id, row.pass_number, step.name)
        if before is not None and before.started_at is None:
            work.update_step(
                tx, row.id, row.pass_number, step.name, state="running", started_at=tx.now()
            )
            # The soak does not count: its whole time is added before it begins.
            soak = self._run.order.limits.soak
            later = row.deadline_at + soak if row.deadline_at else None
            deploys.update(tx, row.id, phase=Phase.SOAKING, deadline_at=later)
        elif row.phase != Phase.SOAKING:
            deploys.update(tx, row.id, phase=Phase.SOAKING)

    def _end_soak(self, tx: Transaction, step: Step) -> None:
        deploy = self._run.deploy
        row = deploys.lock(tx, deploy.id)
        before = work.read_step(tx, deploy.id, deploy.pass_number, step.name)
        if row is None or before is None or before.ended_at is not None:
            return
        if not is_current(row, deploy):
            raise too_late(row, deploy)
        soaking.end(tx, row, before, soak=self._run.order.limits.soak)

    def _come_to(self, failure: Outcome | None) -> tuple[Passed, dict[str, Any] | None]:
        """Undo what was touched, where that is due, and say what the pass came to."""
        run = self._run
        passed = Passed(
            kind=run.kind,
            is_complete=failure is None,
            is_cancelled=run.control.is_cancelled,
            undoing=Undoing.NONE,
            is_partial=any(row.state == "skipped" for row in run.steps().values()),
        )
        if failure is None:
            return passed, None
        error = failure.error
        targets = self._undoable()
        decided = asking.decision(run.deploy)
        due = outcome.should_undo(
            passed,
            is_automatic=run.order.automatic_rollback
            if decided is None
            else decided == Answer.ROLLBACK,
            wants_rollback=run.control.wants_rollback,
            is_touched=bool(targets),
        )
        if not due:
            return passed, error
        undone = self._undo(targets)
        left = sorted(self._touched() - set(targets))
        if left:
            error = {**(error or {}), "not_rolled_back": left}
        how = Undoing.WORKED if undone.is_good else Undoing.FAILED
        is_cancelled = passed.is_cancelled or run.control.is_cancelled
        return (
            Passed(passed.kind, is_complete=False, is_cancelled=is_cancelled, undoing=how),
            error if undone.is_good else {**(error or {}), "rollback": undone.error},
        )

    def _undoable(self) -> tuple[str, ...]:
        """Touched targets with something to go back to, in the order of the waves."""
        past = self._run.prepared.get("past", {})
        found = [name for name in self._touched() if name in past]
        return plan.in_order(self._run.order, found)

    def _touched(self) -> frozenset[str]:
        """Targets on which the acting hook began."""
        row = self._run.row()
        return self._run.ask(lambda tx: closing.touched(tx, row)) if row else frozenset()

    def _undo(self, targets: tuple[str, ...]) -> Outcome:
        """Rollback of the touched targets, the last one first; each is tried."""
        run = self._run
        with run.control.changed:
            run.control.is_undoing = True
        after = max(step.position for step in run.plan.steps())
        steps = plan.undo(run.order, targets, after=after)
        run.logbook.say("rolls back " + ", ".join(reversed(targets)))
        run.write(lambda tx: self._record_undo(tx, steps))
        worst = Outcome(is_good=True)
        for step in steps:
            ended = Stepper(run, step, aims.backward(run, step), is_undo=True).perform()
            if not ended.is_good:
                worst = _named(ended, step)
            if ended is CANCELLED:
                break
        return worst

    def _record_undo(self, tx: Transaction, steps: Sequence[Step]) -> None:
        deploy = self._run.deploy
        row = deploys.lock(tx, deploy.id)
        if row is None or not is_current(row, deploy):
            raise too_late(row, deploy)
        work.write_steps(tx, row, steps)
        deploys.update(tx, row.id, phase=Phase.ROLLING_BACK)

    def _phase(self, phase: Phase) -> None:
        deploy = self._run.deploy

        def record(tx: Transaction) -> None:
            row = deploys.lock(tx, deploy.id)
            if row is not None and is_current(row, deploy):
                deploys.update(tx, row.id, phase=phase)

        self._run.shop.store.repeat(record)

    def _close(self, end: End, error: dict[str, Any] | None) -> None:
        run = self._run
        words = f"ended: {end}" + (f" ({error['message']})" if error and "message" in error else "")
        run.logbook.say(words)
        run.logbook.flush()
        ending = Ending(run.deploy.id, run.deploy.epoch, end, error=error)
        asked_at: datetime | None = None
        lost = run.shop.lifeline.lost.is_set
        while True:
            came = run.shop.store.repeat(lambda tx: closing.conclude(tx, ending), stop=lost)
            if came != Close.LATER:
                break
            at = run.now()
            asked_at = asked_at or at
            if at - asked_at > LONG_WAIT:
                raise Parked(at + LONG_WAIT, "close")
            run.pause(timedelta(milliseconds=500))
        if came == Close.FOREIGN:
            run.shop.metrics.stale_write()
            raise Unwound(run.deploy.id)
        run.shop.admit(run.deploy.environment)


def _named(ended: Outcome, step: Step) -> Outcome:
    if ended is CANCELLED:
        return ended
    return Outcome(is_good=False, error={"step": step.name, **(ended.error or {})})


def _raise_first(futures: Sequence[Future[None]]) -> None:
    """The gravest of what side-by-side work raised: an unwinding before a wait."""
    raised = [error for future in futures if (error := future.exception()) is not None]
    raised.sort(key=lambda error: isinstance(error, Parked))
    if raised:
        raise raised[0]
