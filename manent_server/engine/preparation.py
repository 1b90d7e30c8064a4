"""The first step: everything outside is read once and stored; every attempt sees that.

Now that the slot is held, it is also decided what each target would go back to.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from manent_server.domain import retry
from manent_server.domain.errors import ManentError, Unavailable
from manent_server.domain.plan import PREPARE
from manent_server.domain.retry import Failure
from manent_server.engine import asking_again, carrying, resolution
from manent_server.engine import past as pasts
from manent_server.engine.handout import deadline_error, is_current
from manent_server.engine.resolution import Resolved, Sources
from manent_server.engine.run import LONG_WAIT, GivenBack, Parked, Run
from manent_server.engine.shop import too_late
from manent_server.engine.stepper import CANCELLED, Outcome
from manent_server.sources.locations import ArtifactUnavailable
from manent_server.store import deploys, work
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.store.work import StepRow


def prepare(run: Run) -> Outcome:
    """Store the snapshot, or read the one that is stored, into `run.prepared`."""
    carried, rows = run.write(lambda tx: _record_plan(tx, run), stop=run.shop.lifeline.is_cut)
    run.know(rows)
    if carried:
        names = ", ".join(carried)
        run.logbook.say(f"carried over from deploy {run.deploy.rerun_of}: {names}", step=PREPARE)
    while True:
        run.check()
        row = run.steps()[PREPARE]
        if row.ended_at is not None:
            if not run.prepared:
                run.prepared.update(_stored(run) or {})
            return Outcome(row.state == "succeeded", dict(row.error or {}) or None)
        if run.control.is_cancelled:
            return CANCELLED
        if run.control.is_overdue:
            _fail(run, deadline_error())
        elif not _waits(run, row.next_try_at):
            _try(run)


def _record_plan(tx: Transaction, run: Run) -> tuple[list[str], list[StepRow]]:
    """Record the steps; the names of those that were taken over just now, and all that stand."""
    row = deploys.lock(tx, run.deploy.id)
    if row is None or not is_current(row, run.deploy):
        # Cancelled in the very instant of its start, perhaps: it has ended without a step.
        raise too_late(row, run.deploy)
    is_known = row.rerun_of is None or work.read_step(tx, row.id, row.pass_number, PREPARE)
    carried = {} if is_known else carrying.carry(tx, row, run.plan)
    rows = work.write_steps(tx, row, run.plan.steps(), carried=carried)
    return [name for name, step in carried.items() if step.state == "succeeded"], rows


def _stored(run: Run) -> Mapping[str, Any] | None:
    row = run.row()
    return row.prepared if row else None


def _waits(run: Run, next_try_at: datetime | None) -> bool:
    if next_try_at is None:
        return False
    due = run.control.deadline_at
    next_try_at = min(next_try_at, due) if due is not None else next_try_at
    left = next_try_at - run.now()
    if left <= timedelta(0):
        return False
    if left > LONG_WAIT:
        raise Parked(next_try_at, "retry")
    run.pause(min(left, timedelta(seconds=1)))
    return True


def _try(run: Run) -> None:
    try:
        found = _found(run)
    except Unavailable:
        raise
    except ArtifactUnavailable as error:
        _fail(run, _shown(error), is_retryable=True)
    except ManentError as error:
        _fail(run, _shown(error))
    else:
        if run.deploy.approval is not None:
            # What is said from here on may find the deploy given back.
            run.logbook.flush()
        stored = run.shop.store.repeat(
            lambda tx: _record(tx, run, found), stop=run.shop.lifeline.is_cut
        )
        if stored is None:
            raise GivenBack(run.deploy.id)
        prepared, step = stored
        run.prepared.update(prepared)
        if step is None:  # an earlier answer was lost: it was ended then
            run.forget()
        else:
            run.learn(step)


def _shown(error: ManentError) -> dict[str, Any]:
    return {"code": error.code, "message": error.detail, "next": error.next}


def _found(run: Run) -> Resolved:
    def read(deploy: str) -> Deploy | None:
        return run.ask(lambda tx: deploys.read(tx, deploy))

    sources = Sources(read, run.shop.artifacts.digest)
    return resolution.resolve(run.deploy, run.order, sources)


def _record(
    tx: Transaction, run: Run, found: Resolved
) -> tuple[dict[str, Any], StepRow | None] | None:
    """Store the snapshot and end the step; both as they are stored now.

    Returns:
        None if this is not what was approved: then it waits for its approval again.
    """
    row = deploys.lock(tx, run.deploy.id)
    if row is None or not is_current(row, run.deploy):
        # Given back by an earlier run of this transaction, perhaps.
        raise too_late(row, run.deploy)
    if asking_again.ask_if_changed(tx, row, found):
        return None
    past = pasts.fix(tx, row, run.order)
    prepared = found.as_rows() | {"past": dict(past.targets)}
    at = tx.now()
    deploys.update(
        tx,
        row.id,
        prepared=prepared,
        replaces=past.replaces,
        warnings=list(dict.fromkeys([*(row.warnings or []), *past.warnings])) or None,
    )
    values = {"state": "succeeded", "started_at": at, "ended_at": at}
    done = work.update_step(tx, row.id, row.pass_number, PREPARE, **values)
    return prepared, done


def _fail(run: Run, error: Mapping[str, Any], *, is_retryable: bool = False) -> None:
    redacted = run.shop.redactor.redact_value(dict(error))
    # Counted before the transaction, which may be repeated after it has happened.
    number = run.steps()[PREPARE].failures + 1

    def record(tx: Transaction) -> None:
        row = deploys.lock(tx, run.deploy.id)
        if row is None or not is_current(row, run.deploy):
            raise too_late(row, run.deploy)
        step = work.read_step(tx, row.id, row.pass_number, PREPARE)
        if step is None or step.ended_at is not None:
            return
        at = tx.now()
        began_at = step.started_at or at
        failure = Failure(max(step.failures, number), is_retryable=is_retryable)
        due = retry.next_try(run.order.retry, failure, began_at=began_at, at=at)
        values: dict[str, Any] = {"failures": failure.number, "error": redacted}
        values |= {"started_at": began_at, "next_try_at": due}
        values |= {"state": "failed", "ended_at": at} if due is None else {"state": "waiting"}
        work.update_step(tx, row.id, row.pass_number, PREPARE, **values)

    run.write(record, stop=run.shop.lifeline.is_cut)
    run.logbook.say(f"prepare failed: {redacted['message']}", step=PREPARE)
