"""What runs in the sources of a promotion: since when without a break, and proven when."""

from collections.abc import Iterable, Sequence

from manent_server.domain import inventory as inventories
from manent_server.domain.deploy import State
from manent_server.domain.gates import Asked
from manent_server.domain.inventory import Knowledge
from manent_server.domain.promotion import Run
from manent_server.store import deploys, records
from manent_server.store.deploys import Deploy
from manent_server.store.records import Stock
from manent_server.store.transaction import Transaction

_DEPTH = 50
"""Ends that are looked back at: what has run for longer counts from the earliest of them."""


def runs(tx: Transaction, asked: Iterable[Asked]) -> dict[str, tuple[Run, ...]]:
    """By application, what runs in the sources of the rules that bind these deploys."""
    sources: dict[str, set[str]] = {}
    for one in asked:
        if one.promotion is not None:
            sources.setdefault(one.application, set()).update(one.promotion.sources)
    return {
        application: tuple(
            run for place in sorted(places) for run in _of_place(tx, application, place)
        )
        for application, places in sources.items()
    }


def _of_place(tx: Transaction, application: str, environment: str) -> list[Run]:
    stock = records.inventory(tx, application=application, environment=environment)
    known = [row for row in stock if row.state == Knowledge.KNOWN and row.version is not None]
    if not known:
        return []
    past = _acted(tx, application, environment)
    # What is being deployed to runs nobody knows what.
    moving = {name for row in past if row.is_live for name in row.order_body["targets"]}
    ended = [row for row in past if not row.is_live]
    return [_run(row, ended) for row in known if row.target not in moving]


def _acted(tx: Transaction, application: str, environment: str) -> list[Deploy]:
    """Deploys that have acted there, those that still do and the newest ends first."""
    d = tx.tables.deploys
    query = deploys.whole(tx.tables).where(
        d.c.application == application,
        d.c.environment == environment,
        d.c.handed_out_at.is_not(None),
    )
    rows = tx.connection.execute(query.order_by(d.c.epoch.desc()).limit(_DEPTH))
    return [deploys.of(row) for row in rows]


def _run(stock: Stock, ended: Sequence[Deploy]) -> Run:
    """One target: the successes that brought the same, back to the first that did not."""
    since, proven = stock.since, None
    for row in ended:
        if stock.target not in row.order_body["targets"]:
            continue
        if not _brought(row, stock) or row.ended_at is None:
            break
        since, proven = min(since, row.ended_at), proven or row.ended_at
    return Run(
        environment=stock.environment,
        target=stock.target,
        version=str(stock.version),
        sha256=stock.sha256,
        since=since,
        proven_at=proven or stock.since,
        deploy=stock.deploy,
    )


def _brought(row: Deploy, stock: Stock) -> bool:
    digest = inventories.digest(row.prepared)
    is_same = row.version == stock.version and digest in (stock.sha256, None)
    return row.state == State.SUCCESS and is_same
