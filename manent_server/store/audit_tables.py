"""The record of who did what, its chain, and how far it was handed on."""

import sqlalchemy as sa

from manent_server.store.column import Big
from manent_server.store.naming import Naming, at, count, index, table, text


def audit(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """Records, their chain, what waits for its place in it, and the positions of sinks."""
    is_checkpoint = sa.text("action = 'audit.checkpoint'")
    records: list[sa.schema.SchemaItem] = [
        # In the order of writing; what commits late has a low one.
        sa.Column("entry", Big, primary_key=True, autoincrement=True),
        text("id"),
        at("at", null=False),
        text("actor"),
        text("action"),
        text("deploy", null=True),
        text("application", null=True),
        text("environment", null=True),
        # The whole record, as it is hashed; the columns beside it are for finding it.
        text("record"),
        sa.UniqueConstraint("id", name="manent_audit_id"),
        index(name, "audit_deploy", ["deploy"]),
        index(name, "audit_at", ["at"]),
        sa.Index(
            name.index("audit_checkpoints"),
            "entry",
            sqlite_where=is_checkpoint,
            postgresql_where=is_checkpoint,
        ),
    ]
    chain: list[sa.schema.SchemaItem] = [
        sa.Column("number", Big, primary_key=True, autoincrement=False),
        count("entry"),
        text("hash"),
        sa.UniqueConstraint("entry", name="manent_audit_chain_entry"),
    ]
    waiting: list[sa.schema.SchemaItem] = [
        sa.Column("entry", Big, primary_key=True, autoincrement=False),
    ]
    positions: list[sa.schema.SchemaItem] = [
        text("sink", primary=True),
        # The number of the last record that it was handed for good.
        count("number"),
        at("moved_at", null=False),
        at("failing_since"),
        text("error", null=True),
    ]
    return {
        **table(meta, name, "audit", *records),
        **table(meta, name, "audit_chain", *chain),
        **table(meta, name, "audit_waiting", *waiting),
        **table(meta, name, "audit_positions", *positions),
    }
