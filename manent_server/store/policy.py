"""The policy in force, as rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.store.tables import into
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Revision:
    """One writing of the policy: what, by which release, changed when, by whom.

    `people` says who is who: by login the groups and the names elsewhere; `grants` what groups and
    trust rules give.
    """

    digest: str
    release: str
    configured_at: datetime
    written_by: str
    people: Mapping[str, Any] = field(default_factory=dict, compare=False)
    grants: Mapping[str, Any] = field(default_factory=dict, compare=False)


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
            grants=revision.grants,
        )
        .returning(p.c.revision)
    ).scalar_one()
    return int(number)


def write_environment(tx: Transaction, values: Mapping[str, Any], *, revision: int) -> None:
    """An environment as configured; its counters are kept."""
    new = dict(values) | {"is_configured": True, "policy_revision": revision}
    _put(tx, tx.tables.environments, new, fresh={"next_number": 1, "next_ticket": 1})


def write_application(
    tx: Transaction, name: str, environments: Sequence[str], *, revision: int
) -> None:
    """An application as configured."""
    new = {
        "name": name,
        "environments": list(environments),
        "is_configured": True,
        "policy_revision": revision,
    }
    _put(tx, tx.tables.applications, new, fresh={})


def _put(
    tx: Transaction, table: sa.Table, values: Mapping[str, Any], *, fresh: Mapping[str, Any]
) -> None:
    """Change the row of that name; one that is not there is made, with what is fresh besides."""
    done = tx.connection.execute(_changed(table), {**values, "of_name": values["name"]})
    if done.rowcount == 0:
        tx.connection.execute(into(table), {**values, **fresh})


@cache
def _changed(table: sa.Table) -> sa.Update:
    """The columns are those of the values it is executed with."""
    return sa.update(table).where(table.c.name == sa.bindparam("of_name"))


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
