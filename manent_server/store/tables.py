"""The tables of manent, for one dialect at a time.

Postgres keeps them in schema `manent` (`manent.deploys`), SQLite with a prefix
(`manent_deploys`). A second engine on the same database holds the tables of the durable
execution library; nothing here refers to those.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from manent_server.store.column import Big, Instant, Json

SCHEMA = "manent"
LIVE_STATES = ("DELAYED", "ENQUEUED", "PENDING")


@dataclass(frozen=True)
class Tables:
    """Every table, by its name in the design."""

    metadata: sa.MetaData
    applications: sa.Table
    attempts: sa.Table
    audit: sa.Table
    deploys: sa.Table
    environments: sa.Table
    executors: sa.Table
    holds: sa.Table
    inventory: sa.Table
    keys: sa.Table
    leases: sa.Table
    locks: sa.Table
    logs: sa.Table
    policies: sa.Table
    slots: sa.Table
    steps: sa.Table
    tokens: sa.Table
    wakes: sa.Table


@dataclass(frozen=True)
class _Naming:
    """How a table is called in one dialect; `manent_migrations.naming` is its twin."""

    dialect: str

    @property
    def schema(self) -> str | None:
        return None if self.dialect == "sqlite" else SCHEMA

    def table(self, name: str) -> str:
        return f"{SCHEMA}_{name}" if self.dialect == "sqlite" else name

    def index(self, name: str) -> str:
        # Index names share one space per schema on Postgres and per file on SQLite.
        return f"manent_{name}"

    def key(self, column: str, table: str, *, on_delete: str = "RESTRICT") -> sa.ForeignKey:
        target = self.table(table)
        prefix = f"{self.schema}." if self.schema else ""
        return sa.ForeignKey(f"{prefix}{target}.{column}", ondelete=on_delete)


def epochs() -> sa.Sequence:
    """The one sequence every epoch is drawn from (Postgres; SQLite counts in a table)."""
    return sa.Sequence("epochs", schema=SCHEMA)


def build(dialect: str) -> Tables:
    """The tables as they are called on `dialect` (`sqlite` or `postgresql`)."""
    meta = sa.MetaData()
    name = _Naming(dialect)
    made = {
        **_policy(meta, name),
        **_deploys(meta, name),
        **_work(meta, name),
        **_workers(meta, name),
        **_people(meta, name),
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


def _table(
    meta: sa.MetaData, name: _Naming, table: str, *parts: sa.schema.SchemaItem
) -> dict[str, sa.Table]:
    return {table: sa.Table(name.table(table), meta, *parts, schema=name.schema)}


def _index(name: _Naming, index: str, columns: Sequence[str | sa.ColumnElement[Any]]) -> sa.Index:
    return sa.Index(name.index(index), *columns)


def _text(column: str, *, null: bool = False, primary: bool = False) -> sa.Column[str]:
    return sa.Column(column, sa.Text, nullable=null, primary_key=primary)


def _at(column: str, *, null: bool = True) -> sa.Column[datetime]:
    return sa.Column(column, Instant, nullable=null)


def _json(column: str) -> sa.Column[Any]:
    return sa.Column(column, Json, nullable=True)


def _count(column: str, *, null: bool = False) -> sa.Column[int]:
    return sa.Column(column, Big, nullable=null)


def _policy(meta: sa.MetaData, name: _Naming) -> dict[str, sa.Table]:
    """What manent.yml said last, as rows: who wrote it, and what admission reads."""
    policies = _table(
        meta,
        name,
        "policies",
        sa.Column("revision", Big, primary_key=True, autoincrement=True),
        _text("digest"),
        _text("release"),
        _at("configured_at", null=False),
        _at("written_at", null=False),
        _text("written_by"),
    )
    environments = _table(
        meta,
        name,
        "environments",
        _text("name", primary=True),
        _text("tier"),
        _text("pool"),
        sa.Column("concurrency", sa.Integer, nullable=False),
        sa.Column("is_configured", sa.Boolean, nullable=False),
        _count("next_number"),
        _count("next_ticket"),
        _count("policy_revision"),
    )
    applications = _table(
        meta,
        name,
        "applications",
        _text("name", primary=True),
        _json("environments"),
        sa.Column("is_configured", sa.Boolean, nullable=False),
        _count("policy_revision"),
    )
    return {**policies, **environments, **applications}


def _deploys(meta: sa.MetaData, name: _Naming) -> dict[str, sa.Table]:
    columns: list[sa.schema.SchemaItem] = [
        _text("id", primary=True),
        sa.Column("environment", sa.Text, name.key("name", "environments"), nullable=False),
        _text("application"),
        _count("number"),
        _text("kind"),
        _text("version"),
        _text("sha256", null=True),
        _text("state"),
        _text("phase", null=True),
        _text("outcome", null=True),
        _text("reason", null=True),
        _text("requested_by"),
        _at("requested_at", null=False),
        _json("order_body"),
        sa.Column("order_shape", sa.Integer, nullable=False),
        _text("order_digest"),
        _text("pool"),
        sa.Column("priority", sa.Integer, nullable=False),
        _count("sequence", null=True),
        _count("ticket", null=True),
        _at("not_before"),
        _at("not_after"),
        _json("override"),
        _text("root"),
        sa.Column("rerun_of", sa.Text, name.key("id", "deploys"), nullable=True),
        sa.Column("pass_number", sa.Integer, nullable=False),
        sa.Column("dispatch", sa.Integer, nullable=False),
        _at("dispatched_at"),
        _text("workflow_version", null=True),
        _count("epoch"),
        _text("executor", null=True),
        _text("incarnation", null=True),
        _at("started_at"),
        _at("handed_out_at"),
        _at("deadline_at"),
        _at("ended_at"),
        _at("cancel_requested_at"),
        _text("cancel_by", null=True),
        sa.Column("cancel_rollback", sa.Boolean, nullable=False),
        _text("cancel_reason", null=True),
        sa.Column("rollback_to", sa.Text, name.key("id", "deploys"), nullable=True),
        sa.Column(
            "replaces", sa.Text, name.key("id", "deploys", on_delete="SET NULL"), nullable=True
        ),
        sa.Column(
            "superseded_by", sa.Text, name.key("id", "deploys", on_delete="SET NULL"), nullable=True
        ),
        _json("prepared"),
        _json("error"),
        _json("warnings"),
        _json("links"),
        _json("changes"),
        _text("blocked", null=True),
        _count("revision"),
        _count("log_next"),
        _count("log_bytes"),
        _count("log_dropped"),
        sa.UniqueConstraint("environment", "number", name="manent_deploys_number"),
        sa.CheckConstraint(
            "state IN ('DELAYED','ENQUEUED','PENDING','SUCCESS','ERROR','CANCELLED')",
            name="manent_deploys_state",
        ),
        _index(name, "deploys_recent", ["requested_at", "id"]),
        _index(name, "deploys_place", ["application", "environment", "requested_at", "id"]),
        _index(name, "deploys_environment", ["environment", "requested_at", "id"]),
        _index(name, "deploys_state", ["state", "requested_at", "id"]),
        _index(name, "deploys_good", ["application", "environment", "state", "epoch"]),
        _index(name, "deploys_queue", ["environment", "state", "priority", "ticket"]),
        _index(name, "deploys_executor", ["executor", "state"]),
        _index(name, "deploys_rollback_to", ["rollback_to"]),
        _index(name, "deploys_replaces", ["replaces"]),
    ]
    slots: list[sa.schema.SchemaItem] = [
        sa.Column("environment", sa.Text, name.key("name", "environments"), primary_key=True),
        _text("application", primary=True),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("deploy", sa.Text, name.key("id", "deploys"), nullable=False, unique=True),
        _at("taken_at", null=False),
        sa.UniqueConstraint("environment", "place", name="manent_slots_place"),
    ]
    wakes: list[sa.schema.SchemaItem] = [
        sa.Column(
            "deploy", sa.Text, name.key("id", "deploys", on_delete="CASCADE"), primary_key=True
        ),
        _at("at", null=False),
        _text("reason"),
        _index(name, "wakes_at", ["at"]),
    ]
    return {
        **_table(meta, name, "deploys", *columns),
        **_table(meta, name, "slots", *slots),
        **_table(meta, name, "wakes", *wakes),
    }


def _work(meta: sa.MetaData, name: _Naming) -> dict[str, sa.Table]:
    """Steps, attempts and their output."""

    def deploy() -> sa.ForeignKey:
        return name.key("id", "deploys", on_delete="CASCADE")

    steps: list[sa.schema.SchemaItem] = [
        sa.Column("deploy", sa.Text, deploy(), primary_key=True),
        sa.Column("pass_number", sa.Integer, primary_key=True),
        _text("name", primary=True),
        sa.Column("position", sa.Integer, nullable=False),
        _text("hook"),
        _text("target", null=True),
        sa.Column("wave", sa.Integer, nullable=True),
        _text("state"),
        sa.Column("failures", sa.Integer, nullable=False),
        _json("outputs"),
        _json("error"),
        _json("checkpoint"),
        _at("started_at"),
        _at("next_try_at"),
        _at("ended_at"),
    ]
    attempts: list[sa.schema.SchemaItem] = [
        _text("id", primary=True),
        sa.Column("deploy", sa.Text, deploy(), nullable=False),
        sa.Column("pass_number", sa.Integer, nullable=False),
        _text("step"),
        sa.Column("attempt", sa.Integer, nullable=False),
        _text("application"),
        _text("environment"),
        _text("hook"),
        _text("target"),
        _text("plugin"),
        _count("epoch"),
        _text("executor"),
        _text("incarnation"),
        _text("hostname"),
        _text("boot"),
        _text("pid_namespace"),
        _text("lock_file"),
        _at("handed_out_at", null=False),
        _at("lease_until"),
        _at("ended_at"),
        _text("result", null=True),
        _json("error"),
        _json("outputs"),
        _json("checkpoint"),
        _json("progress"),
        sa.UniqueConstraint(
            "deploy", "pass_number", "step", "attempt", name="manent_attempts_number"
        ),
        _index(name, "attempts_place", ["environment", "application", "ended_at"]),
        _index(name, "attempts_executor", ["executor", "ended_at"]),
    ]
    logs: list[sa.schema.SchemaItem] = [
        sa.Column("deploy", sa.Text, deploy(), primary_key=True),
        # One row holds consecutive lines of one stream: `sequence` is the first one's number.
        sa.Column("sequence", Big, primary_key=True, autoincrement=False),
        sa.Column("lines", sa.Integer, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        _at("at", null=False),
        _text("step", null=True),
        sa.Column("attempt", sa.Integer, nullable=True),
        _text("stream"),
        _text("level", null=True),
        _text("text"),
        _text("executor", null=True),
    ]
    inventory: list[sa.schema.SchemaItem] = [
        _text("application", primary=True),
        sa.Column("environment", sa.Text, name.key("name", "environments"), primary_key=True),
        _text("target", primary=True),
        _text("version", null=True),
        _text("sha256", null=True),
        _text("configuration", null=True),
        _json("outputs"),
        _at("since", null=False),
        sa.Column("deploy", sa.Text, name.key("id", "deploys"), nullable=False),
        _text("state"),
        _index(name, "inventory_deploy", ["deploy"]),
    ]
    return {
        **_table(meta, name, "steps", *steps),
        **_table(meta, name, "attempts", *attempts),
        **_table(meta, name, "logs", *logs),
        **_table(meta, name, "inventory", *inventory),
    }


def _workers(meta: sa.MetaData, name: _Naming) -> dict[str, sa.Table]:
    executors: list[sa.schema.SchemaItem] = [
        _text("id", primary=True),
        _text("incarnation"),
        _text("version"),
        _text("build"),
        _text("hostname"),
        _text("boot"),
        _text("pid_namespace"),
        _at("started_at", null=False),
        _at("heartbeat_at", null=False),
        _at("stopped_at"),
        sa.Column("draining", sa.Boolean, nullable=False),
        _json("pools"),
        _json("plugins"),
        _json("running"),
        _text("configuration", null=True),
        _text("recovered_by", null=True),
    ]
    leases: list[sa.schema.SchemaItem] = [
        _text("name", primary=True),
        _text("holder"),
        _count("token"),
        _at("until", null=False),
    ]
    return {
        **_table(meta, name, "executors", *executors),
        **_table(meta, name, "leases", *leases),
    }


def _people(meta: sa.MetaData, name: _Naming) -> dict[str, sa.Table]:
    """Locks, holds, tokens, idempotency keys and the record of who did what."""

    def marks(*more: sa.schema.SchemaItem) -> list[sa.schema.SchemaItem]:
        return [
            _text("id", primary=True),
            _text("application", null=True),
            _text("environment", null=True),
            _text("reason"),
            _text("owner"),
            _at("created_at", null=False),
            _at("expires_at"),
            _at("lifted_at"),
            _text("lifted_by", null=True),
            sa.Column(
                "deploy", sa.Text, name.key("id", "deploys", on_delete="SET NULL"), nullable=True
            ),
            *more,
        ]

    tokens: list[sa.schema.SchemaItem] = [
        _text("id", primary=True),
        _text("name"),
        _text("hash"),
        _text("shown"),
        _text("role"),
        _text("created_by"),
        _at("created_at", null=False),
        _at("expires_at"),
        _at("revoked_at"),
        sa.UniqueConstraint("hash", name="manent_tokens_hash"),
    ]
    keys: list[sa.schema.SchemaItem] = [
        _text("principal", primary=True),
        _text("path", primary=True),
        _text("key", primary=True),
        _text("body_digest"),
        _text("subject"),
        _at("created_at", null=False),
    ]
    audit: list[sa.schema.SchemaItem] = [
        _text("id", primary=True),
        _at("at", null=False),
        _text("actor"),
        _text("action"),
        _text("deploy", null=True),
        _text("application", null=True),
        _text("environment", null=True),
        _json("detail"),
        _index(name, "audit_deploy", ["deploy"]),
        _index(name, "audit_at", ["at"]),
    ]
    automatic = sa.Column("automatic", sa.Boolean, nullable=False)
    return {
        **_table(meta, name, "locks", *marks(automatic)),
        **_table(meta, name, "holds", *marks()),
        **_table(meta, name, "tokens", *tokens),
        **_table(meta, name, "keys", *keys),
        **_table(meta, name, "audit", *audit),
    }
