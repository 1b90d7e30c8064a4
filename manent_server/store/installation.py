"""The row of the installation: how far it has come, and the fence around what was restored.

A fence is a row, so that every process honours it; whoever begins anything asks `is_open` in the
same statement that lets it begin. The question is asked with what this process knows: a database
that went back under a running process is closed to it before anybody has noticed.
"""

import secrets
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from manent_server.domain.errors import Conflict, Unavailable
from manent_server.domain.installation import Known, Reached
from manent_server.store.deploys import LIVE_STATES
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Installation:
    """The row, with the last number of the record; without `fenced_at` everything may begin."""

    id: str
    epoch: int
    began: int
    reload_asked: int
    fenced_at: datetime | None
    fenced_by: str | None
    restored_epoch: int | None
    restored_number: int | None
    known_epoch: int | None
    known_number: int | None
    number: int

    @property
    def reached(self) -> Reached:
        """How far it has come."""
        return Reached(self.id, self.epoch, self.began, self.number)

    @property
    def known(self) -> Known:
        """How far it is known to have been when it was fenced."""
        return Known(self.id, self.known_epoch or 0, self.known_number or 0)

    @property
    def is_fenced(self) -> bool:
        """Whether nothing may begin."""
        return self.fenced_at is not None

    @property
    def lost(self) -> tuple[int, int]:
        """The first and the last number that the record lost; nothing if the last is lower."""
        return (self.restored_number or 0) + 1, self.known_number or 0

    @property
    def words(self) -> str:
        """Why nothing may begin, in one sentence."""
        back = f"the database went back in time: its record ends at {self.restored_number}"
        if (self.known_epoch or 0) > (self.restored_epoch or 0):
            back += f" of epoch {self.restored_epoch}"
        first, last = self.lost
        if last < first:
            return f"{back}, and epoch {self.known_epoch} is known; nothing begins"
        return f"{back}, and {last} is known: {first} to {last} are missing; nothing begins"


_COLUMNS = tuple(f.name for f in fields(Installation) if f.name != "number")


def is_open(tables: Tables) -> sa.ColumnElement[bool]:
    """Whether something may begin; executed with `tx.floor` among the values."""
    i, given = tables.installation, sa.bindparam
    closed = sa.select(i.c.one).where(
        sa.or_(
            i.c.fenced_at.is_not(None),
            i.c.epoch < given("known_epoch", type_=i.c.epoch.type),
            _newest(tables) < given("known_number", type_=i.c.epoch.type),
        )
    )
    return ~sa.exists(closed)


def _newest(tables: Tables) -> sa.ScalarSelect[int]:
    number = tables.audit_chain.c.number
    return sa.select(sa.func.coalesce(sa.func.max(number), 0)).scalar_subquery()


def is_closed(tx: Transaction) -> bool:
    """Whether nothing may begin."""
    return not tx.connection.execute(_asked(tx.tables), tx.floor).scalar_one()


@cache
def _asked(tables: Tables) -> sa.Select[Any]:
    return sa.select(is_open(tables))


def demand_open(tx: Transaction) -> None:
    """What every writing transaction begins with that must wait for a person's decision.

    Raises:
        Conflict: The installation is fenced.
    """
    if is_closed(tx):
        row = read(tx)
        why = row.words if row is not None and row.is_fenced else "the database went back in time"
        raise Conflict(
            why,
            code="restore_fenced",
            next="manent-server admin restore list shows what is to be decided",
        )


def read(tx: Transaction) -> Installation | None:
    """The row as it stands."""
    row = tx.connection.execute(_one(tx.tables)).one_or_none()
    return Installation(*row) if row else None


def lock(tx: Transaction) -> Installation | None:
    """The row, nobody else's until the transaction ends."""
    row = tx.connection.execute(_one(tx.tables, is_locked=True)).one_or_none()
    return Installation(*row) if row else None


@cache
def _one(tables: Tables, *, is_locked: bool = False) -> sa.Select[Any]:
    i = tables.installation
    query = sa.select(*(i.c[name] for name in _COLUMNS), _newest(tables).label("number"))
    return query.with_for_update(of=i) if is_locked else query


def begin(tx: Transaction) -> None:
    """Give an empty database its id, unless it has one.

    Raises:
        Unavailable: It is not empty: whoever numbered its records gave it a row before. A dump is
            being read in, table by table, and what comes last tells which database it is.
    """
    if read(tx) is not None:
        return
    number = tx.tables.audit_chain.c.number
    if tx.connection.execute(sa.select(number).limit(1)).first() is not None:
        raise Unavailable(
            "the database has no row of its installation, but a history",
            next="let the restore come to its end; then start again",
        )
    dialect = sqlite if tx.dialect == "sqlite" else postgresql
    values = {
        "one": 1,
        "id": secrets.token_hex(8),
        "epoch": 1,
        "began": 0,
        "created_at": tx.now(),
        "reload_asked": 0,
    }
    insert = dialect.insert(tx.tables.installation).values(**values)
    tx.connection.execute(insert.on_conflict_do_nothing())


def update(tx: Transaction, **values: Any) -> None:
    """Change the row."""
    tx.connection.execute(sa.update(tx.tables.installation).values(**values))


def raise_epochs(tx: Transaction, above: int) -> None:
    """Epochs of deploys drawn from now on are greater than this, and than every one before."""
    if tx.dialect == "sqlite":
        value = tx.tables.metadata.tables["manent_epochs"].c.value
        newest = tx.connection.execute(sa.select(sa.func.max(value))).scalar() or 0
        if newest < above:
            tx.connection.execute(sa.insert(value.table).values(value=above))
        return
    # A sequence is no part of the transaction: raised for nothing it does no harm.
    drawn = sa.text("SELECT setval('manent.epochs', greatest(nextval('manent.epochs'), :above))")
    tx.connection.execute(drawn, {"above": above})


@dataclass(frozen=True)
class Resumed:
    """A deploy that may go on when the fence is taken away, and who said so."""

    deploy: str
    decided_by: str
    decided_at: datetime
    reason: str | None


def resume(tx: Transaction, resumed: Resumed) -> None:
    """Note that a deploy may go on; the first word stands."""
    dialect = sqlite if tx.dialect == "sqlite" else postgresql
    insert = dialect.insert(tx.tables.resumed).values(
        deploy=resumed.deploy,
        decided_by=resumed.decided_by,
        decided_at=resumed.decided_at,
        reason=resumed.reason,
    )
    tx.connection.execute(insert.on_conflict_do_nothing())


def resumed(tx: Transaction, *, is_live: bool = False) -> dict[str, Resumed]:
    """Every deploy that may go on, by its id.

    Args:
        tx: For reading.
        is_live: Without those that were ended or cancelled after all.
    """
    d, r = tx.tables.deploys, tx.tables.resumed
    query = sa.select(r.c.deploy, r.c.decided_by, r.c.decided_at, r.c.reason)
    if is_live:
        query = query.join(d, d.c.id == r.c.deploy)
        query = query.where(d.c.state.in_(LIVE_STATES), d.c.cancel_requested_at.is_(None))
    return {row.deploy: Resumed(*row) for row in tx.connection.execute(query)}


def forget_resumed(tx: Transaction) -> None:
    """Nothing is to be decided any more."""
    tx.connection.execute(sa.delete(tx.tables.resumed))


def undecided(tx: Transaction, *, limit: int) -> list[str]:
    """Live deploys of which nobody has said what is to become of them, the oldest first."""
    d, r = tx.tables.deploys, tx.tables.resumed
    query = (
        sa.select(d.c.id)
        .where(
            d.c.state.in_(LIVE_STATES),
            d.c.cancel_requested_at.is_(None),
            ~sa.exists().where(r.c.deploy == d.c.id),
        )
        .order_by(d.c.requested_at, d.c.id)
        .limit(limit)
    )
    return list(tx.connection.scalars(query))
