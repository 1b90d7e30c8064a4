"""One hook step: attempts, tries and waits until it has an outcome.

Only a recorded outcome fails a step. Everything else - a lost database, a lost deploy, the
end of the worker - leaves it as it is for whoever goes on.
"""

import logging
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from manent_server.domain import effects, retry
from manent_server.domain.effects import Last, Move
from manent_server.domain.errors import ManentError, Unavailable
from manent_server.domain.plan import Step
from manent_server.domain.question import Topic
from manent_server.domain.retry import Failure
from manent_server.engine import aim as aims
from manent_server.engine import unable
from manent_server.engine.aim import Aim, Handed
from manent_server.engine.death import await_death
from manent_server.engine.handout import Errand, HandOut, Refusal, Result, finish, hand_out
from manent_server.engine.listener import Listener
from manent_server.engine.run import LONG_WAIT, Asked, Parked, Run
from manent_server.engine.shop import Unwound
from manent_server.observability import log, trace
from manent_server.plugins.runner import HookCall, HookEnd
from manent_server.sources.locations import ArtifactUnavailable
from manent_server.store import aftermath, deploys, work
from manent_server.store.repeat import never
from manent_server.store.transaction import Transaction
from manent_server.store.work import StepRow

_log = logging.getLogger(__name__)
_POLL = timedelta(milliseconds=500)
# A skipped step is one that a person left out.
GOOD = frozenset({"succeeded", "skipped"})


@dataclass(frozen=True)
class Outcome:
    """How a step ended."""

    is_good: bool
    error: dict[str, Any] | None = None


CANCELLED = Outcome(is_good=False, error={"code": "cancelled", "message": "cancelled"})


class Stepper:
    """Performs one step of a run until it has ended."""

    def __init__(
        self,
        run: Run,
        step: Step,
        aim: Aim,
        *,
        is_undo: bool,
        is_halted: Callable[[], bool] = never,
    ) -> None:
        self._is_halted = is_halted
        self._run = run
        self._step = step
        self._aim = aim
        self._is_undo = is_undo

    def perform(self) -> Outcome:
        """The step's outcome, stored or new."""
        with log.bound(step=self._step.name):
            return self._perform()

    def _perform(self) -> Outcome:
        since = time.monotonic()
        while True:
            self._run.check()
            row = self._run.steps()[self._step.name]
            if row.ended_at is not None:
                return Outcome(row.state in GOOD, dict(row.error or {}) or None)
            if row.next_try_at is not None and self._is_halted():
                # Another target has failed: this one's failure stands, it is not tried again.
                return Outcome(is_good=False, error=dict(row.error or {}) or None)
            if self._has_to_wait(row):
                continue
            answer = self._try_once()
            if answer is None:
                since = time.monotonic()
                continue
            settled = self._after_refusal(answer, waited=time.monotonic() - since)
            if settled is not None:
                return settled

    def _has_to_wait(self, row: StepRow) -> bool:
        """Wait for the next try; a long one is left to a wake row, a switch ends it."""
        control = self._run.control
        if row.next_try_at is None or self._is_stopped():
            return False
        until = row.next_try_at
        if control.deadline_at is not None and not self._is_undo:
            until = min(until, control.deadline_at)
        left = until - self._run.now()
        if left <= timedelta(0):
            return False
        if left > LONG_WAIT:
            raise Parked(until, "retry")
        with control.changed:
            control.changed.wait(min(left, timedelta(seconds=1)).total_seconds())
        return True

    def _is_stopped(self) -> bool:
        control = self._run.control
        is_cancelled = control.is_cancelled and not (self._is_undo and control.wants_rollback)
        return is_cancelled or (control.is_overdue and not self._is_undo)

    def _after_refusal(self, answer: HandOut, *, waited: float) -> Outcome | None:
        if answer.refusal == Refusal.NOT_MINE:
            raise Unwound(self._run.deploy.id)
        if answer.refusal == Refusal.SUSPECT:
            self._run.put_back()
            raise Unwound(self._run.deploy.id)
        if answer.refusal == Refusal.CANCELLED:
            self._note_cancel()
            return CANCELLED
        if answer.refusal == Refusal.OVERDUE:
            return self._overdue()
        if answer.refusal == Refusal.OCCUPIED:
            self._wait_for_place(answer, waited=waited)
        self._run.forget()
        return None

    def _note_cancel(self) -> None:
        """The hand-out saw the cancel before the watch did."""
        row = self._run.row()
        if row is not None and row.cancel_requested_at is not None:
            self._run.control.note_cancel(rollback=row.cancel_rollback)

    def _wait_for_place(self, answer: HandOut, *, waited: float) -> None:
        """Another attempt of this application here may still be at work."""
        if waited > LONG_WAIT.total_seconds():
            again = self._run.now() + LONG_WAIT
            raise Parked(min(answer.until or again, again), "occupied")
        self._run.pause(_POLL)

    def _overdue(self) -> Outcome:
        error = {"code": "deadline", "message": "the deadline of the deploy has passed"}
        return self._fail(error)

    def _fail(self, error: dict[str, Any]) -> Outcome:
        """Record a failure that no hook made."""
        deploy, name = self._run.deploy, self._step.name

        def record(tx: Transaction) -> None:
            row = deploys.lock(tx, deploy.id)
            if row is None or row.epoch != deploy.epoch:
                return
            work.update_step(
                tx,
                deploy.id,
                deploy.pass_number,
                name,
                state="failed",
                error=error,
                ended_at=tx.now(),
            )

        self._run.write(record, stop=self._run.shop.lifeline.lost.is_set)
        return Outcome(is_good=False, error=error)

    def _postpone(self, error: dict[str, Any]) -> None:
        """What the hook needs cannot be had now: a failure within the policy, without a hook."""
        deploy, name, policy = self._run.deploy, self._step.name, self._run.order.retry
        # Counted before the transaction, which may be repeated after it has happened.
        number = self._run.steps()[name].failures + 1

        def record(tx: Transaction) -> None:
            row = deploys.lock(tx, deploy.id)
            step = work.read_step(tx, deploy.id, deploy.pass_number, name)
            if row is None or row.epoch != deploy.epoch or step is None:
                return
            at = tx.now()
            began_at = step.started_at or at
            failure = Failure(max(step.failures, number), is_retryable=True)
            due = retry.next_try(policy, failure, began_at=began_at, at=at)
            values: dict[str, Any] = {"failures": failure.number, "error": error}
            values |= {"started_at": began_at, "next_try_at": due}
            values |= {"state": "failed", "ended_at": at} if due is None else {}
            work.update_step(tx, deploy.id, deploy.pass_number, name, **values)

        self._run.write(record, stop=self._run.shop.lifeline.is_cut)
        self._run.logbook.say(f"{name} waits: {error['message']}", step=name)

    def _try_once(self) -> HandOut | None:
        """One attempt; None when it was handed out and has ended, else why it was not."""
        run = self._run
        rows = run.steps()
        if self._is_stopped():
            # Nothing is fetched for it any more; the hand-out says why it is refused.
            return self._hand_over(self._errand(self._step), None)
        step = self._next_hook()
        try:
            made = aims.context(run, self._step, self._aim, Handed(0, None, run.folder), rows)
        except Unavailable:
            raise
        except ArtifactUnavailable as error:
            self._postpone({"code": error.code, "message": error.detail, "next": error.next})
            return None
        except ManentError as error:
            self._fail({"code": error.code, "message": error.detail, "next": error.next})
            return None
        with run.shop.runner.place(self._may_wait) as has_place:
            if not has_place:
                return None
            errand = self._errand(step)
            run.control.began(errand.id)
            try:
                return self._hand_over(errand, made[0])
            finally:
                run.control.ended(errand.id)

    def _go_on_after_all(self) -> None:
        """The row allows what a switch forbade: a later deadline, a rollback asked for since."""
        self._note_cancel()
        with self._run.control.changed:
            self._run.control.is_overdue = False

    def _may_wait(self) -> bool:
        """Whether to go on waiting for a place: not past a cancel, the deadline or the end."""
        is_ended = self._run.control.is_disowned or self._run.shop.lifeline.is_cut()
        return not is_ended and not self._is_stopped()

    def _next_hook(self) -> Step:
        """The step itself, or asking the target first what an interrupted hook has done.

        Raises:
            Asked: Only a person can tell.
        """
        step, run = self._step, self._run
        if step.target not in run.order.once or step.hook not in effects.ACTING:
            return step
        found = run.ask(lambda tx: aftermath.last_begun(tx, run.deploy.id, step.name))
        last = Last(found.hook, found.result, found.outputs, found.resolved) if found else None
        move = effects.next_move(last, can_observe=effects.OBSERVE in run.order.hooks)
        if move == Move.ASK:
            raise Asked(
                Topic.UNKNOWN,
                (step.name,),
                f"{step.name} was cut short and must not run twice, and the target cannot tell "
                f"whether {self._aim.version} is in place",
            )
        return replace(step, hook=effects.OBSERVE) if move == Move.OBSERVE else step

    def _errand(self, step: Step) -> Errand:
        run = self._run
        attempt = secrets.token_hex(12)
        return Errand(
            id=attempt,
            deploy=run.deploy,
            step=step,
            plugin=run.order.plugin,
            identity=run.shop.identity,
            lock_file=str(run.shop.workdir / "attempts" / attempt),
            is_undo=self._is_undo,
            is_trial=run.is_trial,
            lease=run.shop.lease,
        )

    def _hand_over(self, errand: Errand, context: dict[str, Any] | None) -> HandOut | None:
        run = self._run
        while run.shop.lifeline.is_fenced:
            run.pause(_POLL)
        lost = run.shop.lifeline.is_cut
        handed = run.shop.store.repeat(lambda tx: hand_out(tx, errand), stop=lost)
        if handed.refusal is not None:
            return handed
        try:
            with log.bound(attempt=handed.attempt):
                self._attempt(errand, context, handed)
        except BaseException:
            # Its end may not be recorded, and this run is over. A lease ends by itself.
            if errand.lease is None:
                run.shop.leftovers.add(errand)
            raise
        return None

    def _attempt(self, errand: Errand, context: dict[str, Any] | None, handed: HandOut) -> None:
        """An attempt that was handed out, up to its recorded end."""
        hook = errand.step.hook
        began = time.monotonic()
        said: dict[str, Any] = {"step": self._step.name, "attempt": handed.attempt, "hook": hook}
        with self._run.shop.tracer.span(self._step.name, **said) as note:
            end = self._act(errand, context, handed)
            note(result=end.result)
        took = time.monotonic() - began
        self._run.shop.metrics.hook(errand.plugin, hook, seconds=took)
        _log.info("%s ended after %.1f s: %s", hook, took, end.result)
        self._record(errand, end, handed.attempt)

    def _act(self, errand: Errand, context: dict[str, Any] | None, handed: HandOut) -> HookEnd:
        """Run the hook of an attempt that was handed out; whatever happens, it has an end."""
        if context is None:
            self._go_on_after_all()
            goes_on = {"code": unable.ALLOWED, "message": "goes on"}
            return HookEnd(result="not_started", error=goes_on)
        try:
            workdir = self._workdir(handed.attempt)
        except OSError as error:
            words = f"no working folder: {error.strerror}"
            return HookEnd(result="not_started", error={"code": "workdir", "message": words})
        told: dict[str, Any] = {"attempt": handed.attempt, "checkpoint": handed.checkpoint}
        if (place := trace.current()) is not None:
            told["traceparent"] = place
        try:
            return self._call(errand, context | told | {"workdir": str(workdir)}, handed)
        except Exception as error:  # noqa: BLE001 - logged whole; the attempt must have an end
            # The guard sees its pipe close and kills; the lock file says when all is dead.
            _log.exception("attempt %s was left by an unexpected error", errand.id)
            words = f"the worker failed: {type(error).__name__}"
            wrong = {"code": "worker_error", "message": words}
            return HookEnd(result="interrupted", error=wrong, is_dead=False)

    def _workdir(self, attempt: int) -> Path:
        run = self._run
        name = f"{self._step.name.replace(':', '-')}-{attempt}-{run.deploy.epoch}"
        workdir = run.folder / name
        shutil.rmtree(workdir, ignore_errors=True)
        workdir.mkdir(parents=True)
        return workdir

    def _call(self, errand: Errand, context: dict[str, Any], handed: HandOut) -> HookEnd:
        run = self._run
        call = HookCall(
            attempt_id=errand.id,
            plugin=errand.plugin,
            hook=errand.step.hook,
            context=context,
            timeout=run.order.limits.timeout,
            kill_grace=run.shop.caps.kill_grace,
            lease_until=handed.lease_until,
            lock_file=Path(errand.lock_file),
        )
        listener = Listener(run, self._step, errand, handed.attempt)
        end = run.shop.runner.call(call, on_events=listener.hear)
        redact = run.shop.redactor.redact_value
        return replace(end, error=redact(end.error), outputs=redact(end.outputs))

    def _record(self, errand: Errand, end: HookEnd, attempt: int) -> None:
        """Store how the attempt ended, once its processes are known dead."""
        run = self._run
        if not end.is_dead:
            await_death(run, errand)
        lifeline = run.shop.lifeline
        # A hook that ended by itself while the worker was being cut counts as it ended.
        is_interrupted = end.result == "interrupted" and lifeline.is_cut()
        if is_interrupted:
            run.logbook.flush()
        overdue = run.control.is_overdue and end.result != "succeeded" and not self._is_undo
        result = Result(errand, attempt, end, run.order.retry, is_overdue=overdue)

        def record(tx: Transaction) -> StepRow | None:
            row = finish(tx, result)
            if row is not None and is_interrupted:
                deploy = deploys.read(tx, run.deploy.id)
                if deploy is not None and deploy.incarnation == run.deploy.incarnation:
                    run.shop.dispatcher.hand_back(tx, deploy)
            return row

        row = run.shop.store.repeat(record, stop=lifeline.lost.is_set)
        if row is None and not is_interrupted:
            _log.warning("attempt %s ended %s too late: it is dropped", errand.id, end.result)
            run.shop.metrics.stale_write()
        if row is None or is_interrupted:
            raise Unwound(run.deploy.id)
        run.learn(row)
        Path(errand.lock_file).unlink(missing_ok=True)
        self._tell(errand, end, row)
        unable.leave(run, end, attempt)

    def _tell(self, errand: Errand, end: HookEnd, row: StepRow) -> None:
        if errand.is_observing:
            self._run.logbook.say(_observed(end, self._aim.version), step=self._step.name)
        if end.result == "succeeded":
            return
        message = (end.error or {}).get("message", "")
        words = f"{self._step.name} {end.result.replace('_', ' ')}: {message}"
        if row.ended_at is None and row.next_try_at is not None:
            words += f"; tried again at {row.next_try_at:%H:%M:%S} UTC"
        self._run.logbook.say(words, step=self._step.name)


def _observed(end: HookEnd, version: str) -> str:
    found = {True: "is in place", False: "is not in place", None: "may or may not be in place"}
    return f"observed after an interruption: {version} {found[effects.in_place(end.outputs)]}"
