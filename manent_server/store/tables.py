"""The tables of manent, for one dialect at a time.

Postgres keeps them in schema `manent` (`manent.deploys`), SQLite with a prefix
(`manent_deploys`). A second engine on the same database holds the tables of the durable
execution library; nothing here refers to those.
"""

from dataclasses import dataclass, fields
from functools import cache

import sqlalchemy as sa

from manent_server.store import (
    access_tables,
    approval_tables,
    audit_tables,
    chat_tables,
    deploy_tables,
    event_tables,
    installation_tables,
    schedule_tables,
    work_tables,
)
from manent_server.store.naming import SCHEMA, Naming


@dataclass(frozen=True)
class Tables:
    """Every table, by its name in the design."""

    metadata: sa.MetaData
    applications: sa.Table
    approvals: sa.Table
    attempts: sa.Table
    audit: sa.Table
    audit_chain: sa.Table
    audit_positions: sa.Table
    audit_waiting: sa.Table
    chat_cursors: sa.Table
    chat_links: sa.Table
    chat_messages: sa.Table
    chat_seen: sa.Table
    deploys: sa.Table
    environments: sa.Table
    events: sa.Table
    executors: sa.Table
    installation: sa.Table
    inventory: sa.Table
    keys: sa.Table
    leases: sa.Table
    logs: sa.Table
    marks: sa.Table
    notices: sa.Table
    policies: sa.Table
    resumed: sa.Table
    schedule_runs: sa.Table
    schedules: sa.Table
    sinks: sa.Table
    slots: sa.Table
    steps: sa.Table
    tallies: sa.Table
    tokens: sa.Table
    votes: sa.Table
    sessions: sa.Table
    wakes: sa.Table


def epochs() -> sa.Sequence:
    """The one sequence every epoch is drawn from (Postgres; SQLite counts in a table)."""
    return sa.Sequence("epochs", schema=SCHEMA)


@cache
def into(table: sa.Table) -> sa.Insert:
    """A new row; its columns are those of the values it is executed with."""
    return table.insert()


@cache
def build(dialect: str) -> Tables:
    """The tables as they are called on `dialect` (`sqlite` or `postgresql`)."""
    meta = sa.MetaData()
    name = Naming(dialect)
    made = {
        **deploy_tables.policy(meta, name),
        **deploy_tables.deploys(meta, name),
        **work_tables.work(meta, name),
        **work_tables.workers(meta, name),
        **work_tables.people(meta, name),
        **access_tables.access(meta, name),
        **audit_tables.audit(meta, name),
        **schedule_tables.schedules(meta, name),
        **event_tables.events(meta, name),
        **event_tables.notices(meta, name),
        **event_tables.tallies(meta, name),
        **approval_tables.approvals(meta, name),
        **chat_tables.chats(meta, name),
        **installation_tables.installation(meta, name),
    }
    if dialect == "sqlite":
        sa.Table(
            name.table("epochs"),
            meta,
            sa.Column("value", sa.Integer, primary_key=True),
            sqlite_autoincrement=True,
        )
    known = {f.name for f in fields(Tables)}
    return Tables(metadata=meta, **{k: v for k, v in made.items() if k in known})
