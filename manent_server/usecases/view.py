"""Rows as the JSON people and programs read: every field is named here, none slips in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from manent_server.domain import approval, gates
from manent_server.domain import inventory as inventories
from manent_server.domain import question as questions
from manent_server.domain.awaiting import Stage
from manent_server.domain.events import Event
from manent_server.domain.gates import ClosedGate
from manent_server.domain.marks import Mark
from manent_server.store.deploys import Deploy
from manent_server.store.logs import Line
from manent_server.store.notices import Notice
from manent_server.store.queue import Environment
from manent_server.store.records import Stock
from manent_server.store.tokens import Token
from manent_server.store.work import Attempt, StepRow
from manent_server.store.workers import Executor


def instant(at: datetime | None) -> str | None:
    """RFC 3339 in UTC."""
    if at is None:
        return None
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Beside:
    """What other rows say of a deploy: its place in the queue, whom it goes back to or replaced.

    `back_to` is the version of the deploy a rollback goes back to; `supersedes` are the deploys
    that ended because of this one.
    """

    position: int | None = None
    back_to: str | None = None
    supersedes: Sequence[str] = ()


def deploy(row: Deploy, *, url: str, beside: Beside) -> dict[str, Any]:
    """A deploy, with what stands in other rows."""
    return {
        "id": row.id,
        "number": row.number,
        "application": row.application,
        "environment": row.environment,
        "version": row.version,
        "kind": row.kind,
        "state": row.state,
        "phase": row.phase,
        "outcome": row.outcome,
        "position": beside.position,
        "url": f"{url}/api/v1/deploys/{row.id}",
        "reason": row.reason,
        "requested_by": row.requested_by,
        "requested_at": instant(row.requested_at),
        "started_at": instant(row.started_at),
        "ended_at": instant(row.ended_at),
        "sha256": row.sha256 or inventories.digest(row.prepared),
        "priority": row.priority,
        "sequence": row.sequence,
        "not_before": instant(row.not_before),
        "not_after": instant(row.not_after),
        "deadline_at": instant(row.deadline_at),
        "root": row.root,
        "rerun_of": row.rerun_of,
        "rerun_from": row.rerun_from,
        "pass": row.pass_number,
        "dispatch": row.dispatch,
        "epoch": row.epoch,
        "executor": row.executor,
        "workflow_version": row.workflow_version,
        "promoted_from": row.promoted_from,
        "rollback_to": {"deploy": row.rollback_to, "version": beside.back_to}
        if row.rollback_to
        else None,
        "cancel": _cancel(row),
        "question": _question(row),
        "approval": _approval(row),
        "error": dict(row.error) if row.error else None,
        "superseded_by": row.superseded_by,
        "supersedes": list(beside.supersedes),
        "collision": row.order_body.get("collision", "queue"),
        "override": list(row.override or []),
        "warnings": list(row.warnings or []),
        "links": dict(row.links) if row.links else None,
        "changes": list(row.changes) if row.changes else None,
        # One order that cannot be read must not keep a page from being shown.
        "plugin": row.order_body.get("plugin"),
        "targets": [name for wave in row.order_body.get("waves", ()) for name in wave],
    }


def _cancel(row: Deploy) -> dict[str, Any] | None:
    if row.cancel_requested_at is None:
        return None
    return {
        "requested_at": instant(row.cancel_requested_at),
        "by": row.cancel_by,
        "rollback": row.cancel_rollback,
        "reason": row.cancel_reason,
    }


def _approval(row: Deploy) -> dict[str, Any] | None:
    """How far its approval came; of one that is let through there is no approver."""
    if row.approval is None:
        return None
    is_bypassed = approval.GATE in (row.override or ())
    has_begun = row.started_at is not None
    passed = "passed" if has_begun and row.approval == Stage.RESOLVING else row.approval
    return {
        "stage": "bypassed" if is_bypassed else passed,
        "digest": row.approval_digest,
        "rules": [rule["name"] for rule in row.order_body.get("approvals", ())],
        "bypassed_by": row.requested_by if is_bypassed else None,
        "reason": row.reason if is_bypassed else None,
    }


def _question(row: Deploy) -> dict[str, Any] | None:
    """What a person has to answer, or has answered last."""
    if not row.question:
        return None
    found = questions.load(row.question)
    last = found.last
    return {
        "topic": found.topic,
        "steps": list(found.steps),
        "open": list(found.open_steps) if row.open_question else [],
        "detail": found.detail,
        "asked_at": instant(found.asked_at),
        "answer": last and last.answer,
        "answered_by": last and last.by,
        "answered_at": instant(last.at) if last else None,
        "reason": last and last.reason,
    }


def step(row: StepRow, *, attempts: int) -> dict[str, Any]:
    """A step of a pass."""
    return {
        "step": row.name,
        "hook": row.hook,
        "target": row.target,
        "wave": row.wave,
        "pass": row.pass_number,
        "state": row.state,
        "attempts": attempts,
        "started_at": instant(row.started_at),
        "next_try_at": instant(row.next_try_at),
        "ended_at": instant(row.ended_at),
        "error": dict(row.error) if row.error else None,
        "outputs": dict(row.outputs) if row.outputs else None,
        "carried_from": row.carried_from,
    }


def attempt(row: Attempt) -> dict[str, Any]:
    """One run of a hook."""
    return {
        "step": row.step,
        "pass": row.pass_number,
        "attempt": row.attempt,
        "hook": row.hook,
        "target": row.target,
        "epoch": row.epoch,
        "executor": row.executor,
        "handed_out_at": instant(row.handed_out_at),
        "lease_until": instant(row.lease_until),
        "ended_at": instant(row.ended_at),
        "result": row.result,
        "resolved": row.resolved,
        "error": dict(row.error) if row.error else None,
        "outputs": dict(row.outputs) if row.outputs else None,
    }


def line(row: Line) -> dict[str, Any]:
    """One line of a log."""
    return {
        "sequence": row.sequence,
        "at": instant(row.at),
        "step": row.origin.step,
        "attempt": row.origin.attempt,
        "stream": row.origin.stream,
        "level": row.origin.level,
        "text": row.text,
        "executor": row.origin.executor,
    }


def stock(row: Stock) -> dict[str, Any]:
    """What runs on one target."""
    return {
        "application": row.application,
        "environment": row.environment,
        "target": row.target,
        "version": row.version,
        "sha256": row.sha256,
        "configuration": row.configuration,
        "since": instant(row.since),
        "deploy": row.deploy,
        "state": row.state,
    }


def mark(row: Mark) -> dict[str, Any]:
    """A lock, freeze, hold, veto or stop, in force unless it was lifted or has expired."""
    return {
        "id": row.id,
        "sort": row.sort,
        "application": row.application,
        "environment": row.environment,
        "version": row.version,
        "reason": row.reason,
        "owner": row.owner,
        "created_at": instant(row.created_at),
        "starts_at": instant(row.starts_at),
        "expires_at": instant(row.expires_at),
        "automatic": row.automatic,
        "deploy": row.deploy,
        "lifted_at": instant(row.lifted_at),
        "command": gates.command(row),
    }


def gate(closed: ClosedGate) -> dict[str, Any]:
    """A closed gate."""
    return {
        "gate": closed.gate,
        "closed_since": instant(closed.closed_since),
        "opens_at": instant(closed.opens_at),
        "opened_by": closed.opened_by,
        "command": closed.command,
        "detail": closed.detail,
    }


def blocked(deploy: str | None, summary: str, closed: Sequence[ClosedGate]) -> dict[str, Any]:
    """What `explain` would say of a deploy that was refused, with it the refusal's body."""
    return {
        "id": deploy,
        "state": None,
        "phase": None,
        "summary": summary,
        "gates": [gate(one) for one in closed],
        "position": None,
        "ahead": [],
        "blocked_by": None,
        "workers": None,
    }


def token(row: Token) -> dict[str, Any]:
    """A token without its text."""
    return {
        "id": row.id,
        "name": row.name,
        "shown": row.shown,
        "role": row.role,
        "kind": row.kind,
        "groups": list(row.groups),
        "applications": list(row.applications),
        "environments": list(row.environments),
        "created_by": row.created_by,
        "created_at": instant(row.created_at),
        "expires_at": instant(row.expires_at),
        "revoked_at": instant(row.revoked_at),
        "last_used_at": instant(row.last_used_at),
        "last_used_from": row.last_used_from,
    }


def environment(row: Environment) -> dict[str, Any]:
    """An environment as it stands in the database."""
    return {
        "name": row.name,
        "tier": row.tier,
        "pool": row.pool,
        "concurrency": row.concurrency,
    }


def worker(row: Executor, *, is_alive: bool) -> dict[str, Any]:
    """A worker, briefly."""
    return {
        "id": row.id,
        "alive": is_alive,
        "draining": row.draining,
        "heartbeat_at": instant(row.heartbeat_at),
        "pools": list(row.pools),
        "plugins": list(row.plugins),
        "running": len(row.running or ()),
    }


def executor(
    row: Executor, *, is_alive: bool, pending: Mapping[str, int], oldest: datetime | None
) -> dict[str, Any]:
    """A row of the registry; what is empty is left out."""
    return {
        "id": row.id,
        "version": row.version,
        "build": row.build,
        "hostname": row.hostname,
        "started_at": instant(row.started_at),
        "heartbeat_at": instant(row.heartbeat_at),
        "registered": True,
        "alive": is_alive,
        "pending": dict(pending) or None,
        "recovered_by": row.recovered_by,
        "stopped_at": instant(row.stopped_at),
        "draining": row.draining,
        "running": len(row.running or ()),
        "oldest_step_at": instant(oldest),
        "pools": list(row.pools),
        "plugins": list(row.plugins),
        "configuration": row.configuration,
    }


def stranger(name: str, *, pending: Mapping[str, int]) -> dict[str, Any]:
    """An executor that holds deploys and is missing from the registry."""
    return {"id": name, "registered": False, "alive": False, "pending": dict(pending)}


def page(items: Sequence[Mapping[str, Any]], after: str | None) -> dict[str, Any]:
    """A page and the cursor of the next one."""
    return {"items": list(items), "next": after}


def event(found: Event) -> dict[str, Any]:
    """An event."""
    return {
        "id": found.id,
        "position": found.position,
        "at": instant(found.at),
        "type": found.type,
        "actor": found.actor,
        "deploy": found.deploy,
        "application": found.application,
        "environment": found.environment,
        "detail": dict(found.detail),
    }


def notice(found: Notice) -> dict[str, Any]:
    """A notice with its event."""
    return {
        "id": found.id,
        "sink": found.sink,
        "state": found.state,
        "created_at": instant(found.created_at),
        "tries": found.tries,
        "next_try_at": instant(found.next_try_at),
        "expires_at": instant(found.expires_at),
        "done_at": instant(found.done_at),
        "status": found.status,
        "error": found.error,
        "event": event(found.event),
    }
