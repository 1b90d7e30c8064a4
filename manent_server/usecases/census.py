"""Take a census: everything the metrics say of the installation, by a handful of statements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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


def read(desk: Desk, rests: Mapping[str, timedelta]) -> Reading:
    """Ask the database.

    Args:
        desk: Where.
        rests: The leases somebody is to have, and how long each may be nobody's meanwhile.
    """
    beats, census = _take(desk, rests)
    return Reading(
        beats=beats,
        sinks=sinks.standings(desk),
        unchained=receivers.unchained(desk),
        audit=receivers.metrics(desk),
        census=census,
    )


def _take(desk: Desk, rests: Mapping[str, timedelta]) -> tuple[list[ExecutorBeat], Census]:
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
            leases=_wanted(rows.leases(tx), rests),
            configurations=len({one.configuration for one in crew if one.id in up}),
            is_fenced=_is_fenced(tx),
            tallies=tallies.everything(tx),
        )
    beats = [ExecutorBeat(one.id, one.id in up, one.heartbeat_at) for one in crew]
    return beats, census


def _is_fenced(tx: Transaction) -> bool:
    row = installation.read(tx)
    return row is not None and row.is_fenced


def _wanted(found: Sequence[Tenancy], rests: Mapping[str, timedelta]) -> list[Tenancy]:
    """Those some process is to have: not that of a sink which is configured no more."""
    return [replace(lease, rests=rests[lease.name]) for lease in found if lease.name in rests]
