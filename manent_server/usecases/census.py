"""Take a census: everything the metrics say of the installation, by a handful of statements."""

from dataclasses import dataclass
from datetime import timedelta

from manent_server.domain.census import Census, Tenancy
from manent_server.domain.liveness import is_lost
from manent_server.observability.audit_metrics import AuditStanding
from manent_server.observability.metrics import ExecutorBeat, SinkStanding
from manent_server.store import census as rows
from manent_server.store import installation, tallies, workers
from manent_server.store.transaction import Transaction
from manent_server.usecases import receivers, sinks
from manent_server.usecases.desk import Desk


@dataclass(frozen=True)
class Reading:
    """One answer for all of one scrape."""

    beats: list[ExecutorBeat]
    sinks: list[SinkStanding]
    unchained: float
    audit: list[AuditStanding]
    census: Census


def read(desk: Desk) -> Reading:
    """Ask the database."""
    beats, census = _take(desk)
    return Reading(
        beats=beats,
        sinks=sinks.standings(desk),
        unchained=receivers.unchained(desk),
        audit=receivers.metrics(desk),
        census=census,
    )


def _take(desk: Desk) -> tuple[list[ExecutorBeat], Census]:
    stale_after = desk.settings().recovery.stale_after
    with desk.store.read() as tx:
        at = tx.now()
        crew = workers.everyone(tx)
        up = {
            one.id
            for one in crew
            if not is_lost(
                heartbeat_at=one.heartbeat_at,
                stopped_at=one.stopped_at,
                at=at,
                stale_after=stale_after,
            )
        }
        census = Census(
            at=at,
            live=rows.live(tx),
            taken_since=rows.taken_since(tx),
            approvals=rows.approvals(tx),
            marks=rows.marks(tx, at=at),
            leases=[lease for lease in rows.leases(tx) if _is_wanted(desk, lease)],
            configurations=len({one.configuration for one in crew if one.id in up}),
            is_fenced=_is_fenced(tx),
            tallies=tallies.everything(tx),
        )
    beats = [ExecutorBeat(one.id, one.id in up, one.heartbeat_at) for one in crew]
    return beats, census


def _is_fenced(tx: Transaction) -> bool:
    row = installation.read(tx)
    return row is not None and row.is_fenced


def _is_wanted(desk: Desk, lease: Tenancy) -> bool:
    """Whether some process is to have it: not that of a sink which is configured no more."""
    settings = desk.settings()
    loop, _, name = lease.name.partition(":")
    if lease.name == "recovery":
        return settings.recovery.auto_recover_after > timedelta(0)
    if loop == "outbox":
        told = {one.name for one in sinks.known(desk)}
        return name in told | {f"audit:{one}" for one in receivers.known(desk)}
    if loop == "chat":
        return name in settings.chat
    return not name
