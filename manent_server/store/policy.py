"""The policy in force, as rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Revision:
    """One writing of the policy: what, by which release, changed when, by whom.

    `people` says who is who: by login the groups and the names elsewhere.
    """

    digest: str
    release: str
    configured_at: datetime
    written_by: str
    people: Mapping[str, Any] = field(default_factory=dict, compare=False)


def current(tx: Transaction) -> Revision | None:
    """The policy in force."""
    p = tx.tables.policies
    row = tx.connection.execute(
        sa.select(p.c.digest, p.c.release, p.c.configured_at, p.c.written_by)
        .order_by(p.c.revision.desc())
        .limit(1)
    ).one_or_none()
    return Revision(*tuple(row)) if row else None


def lock_current(tx: Transaction) -> Revision | None:
    """The policy in force, with every other writer kept out until the transaction ends."""
    if tx.dialect != "sqlite":
        p = tx.tables.policies
        tx.connection.execute(sa.text(f"LOCK TABLE {p.fullname} IN SHARE ROW EXCLUSIVE MODE"))
    return current(tx)


def write_revision(tx: Transaction, revision: Revision) -> int:
    """A new revision; its number."""
    p = tx.tables.policies
    number = tx.connection.execute(
        p.insert()
        .values(
            digest=revision.digest,
            release=revision.release,
            configured_at=revision.configured_at,
            written_at=tx.now(),
            written_by=revision.written_by,
            people=revision.people,
        )
        .returning(p.c.revision)
    ).scalar_one()
    return int(number)


def write_environment(tx: Transaction, values: Mapping[str, Any], *, revision: int) -> None:
    """An environment as configured; its counters are kept."""
    e = tx.tables.environments
    new = dict(values) | {"is_configured": True, "policy_revision": revision}
    done = tx.connection.execute(sa.update(e).where(e.c.name == values["name"]).values(**new))
    if done.rowcount == 0:
        tx.connection.execute(e.insert().values(**new, next_number=1, next_ticket=1))


def write_application(
    tx: Transaction, name: str, environments: Sequence[str], *, revision: int
) -> None:
    """An application as configured."""
    a = tx.tables.applications
    new = {
        "environments": list(environments),
        "is_configured": True,
        "policy_revision": revision,
    }
    done = tx.connection.execute(sa.update(a).where(a.c.name == name).values(**new))
    if done.rowcount == 0:
        tx.connection.execute(a.insert().values(name=name, **new))


def applications(tx: Transaction) -> list[str]:
    """The name of every application that is configured or was once."""
    a = tx.tables.applications
    return list(tx.connection.execute(sa.select(a.c.name).order_by(a.c.name)).scalars())


def retire(tx: Transaction, *, revision: int) -> None:
    """What this revision does not name is no longer configured; its rows stay."""
    for table in (tx.tables.environments, tx.tables.applications):
        tx.connection.execute(
            sa.update(table).where(table.c.policy_revision < revision).values(is_configured=False)
        )
