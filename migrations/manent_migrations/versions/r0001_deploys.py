"""The first tables: policy, deploys, steps and attempts, workers, people."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

from manent_migrations import (
    access,
    approvals,
    audit,
    chats,
    events,
    installation,
    schedules,
    workers,
)
from manent_migrations.column import BIG, at, count, flag, integer, json, refers, text
from manent_migrations.naming import SCHEMA, Naming

revision = "0001"
down_revision = None

Create = Callable[..., None]


def upgrade() -> None:
    name = Naming(op.get_bind().dialect.name)

    def create(table: str, *parts: sa.schema.SchemaItem, **options: Any) -> None:
        op.create_table(name.table(table), *parts, schema=name.schema, **options)

    _epochs(name, create)
    _policies(create)
    _deploys(name, create)
    _places(name, create)
    _steps(name, create)
    _attempts(name, create)
    _logs(name, create)
    _inventory(name, create)
    workers.create_tables(create)
    _marks(name, create)
    access.create(name, create)
    audit.create_tables(name, create)
    for guard in audit.guards(name):
        op.execute(guard)
    schedules.create(name, create)
    events.create_tables(name, create)
    approvals.create(name, create)
    chats.create_tables(name, create)
    installation.create_tables(name, create)
    _engine(create)


def _epochs(name: Naming, create: Create) -> None:
    """The one counter of epochs: a sequence, or a table that never gives a number twice."""
    if name.schema:
        op.execute(sa.schema.CreateSequence(sa.Sequence("epochs", schema=SCHEMA)))
    else:
        value: sa.Column[int] = sa.Column("value", sa.Integer, primary_key=True)
        create("epochs", value, sqlite_autoincrement=True)


def _policies(create: Create) -> None:
    create(
        "policies",
        sa.Column("revision", BIG, primary_key=True, autoincrement=True),
        text("digest"),
        text("release"),
        at("configured_at", null=False),
        at("written_at", null=False),
        text("written_by"),
        json("people"),
        json("grants"),
    )
    create(
        "environments",
        text("name", primary=True),
        text("tier"),
        text("pool"),
        integer("concurrency"),
        json("rules"),
        flag("is_configured"),
        count("next_number"),
        count("next_ticket"),
        count("policy_revision"),
    )
    create(
        "applications",
        text("name", primary=True),
        json("environments"),
        flag("is_configured"),
        count("policy_revision"),
    )


def _deploys(name: Naming, create: Create) -> None:
    create(
        "deploys",
        *_request(name),
        *_progress(),
        *_links(name),
        sa.UniqueConstraint("environment", "number", name="manent_deploys_number"),
        sa.CheckConstraint(
            "state IN ('DELAYED','ENQUEUED','PENDING','SUCCESS','ERROR','CANCELLED')",
            name="manent_deploys_state",
        ),
        sa.Index(name.index("deploys_recent"), "requested_at", "id"),
        sa.Index(name.index("deploys_place"), "application", "environment", "requested_at", "id"),
        sa.Index(name.index("deploys_application"), "application", "requested_at", "id"),
        sa.Index(name.index("deploys_environment"), "environment", "requested_at", "id"),
        sa.Index(name.index("deploys_state"), "state", "requested_at", "id"),
        sa.Index(name.index("deploys_version"), "version", "requested_at", "id"),
        sa.Index(name.index("deploys_outcome"), "outcome", "requested_at", "id"),
        sa.Index(name.index("deploys_sequence"), "application", "environment", "state", "sequence"),
        sa.Index(name.index("deploys_good"), "application", "environment", "state", "epoch"),
        sa.Index(name.index("deploys_queue"), "environment", "state", "priority", "ticket"),
        sa.Index(name.index("deploys_executor"), "executor", "state"),
        sa.Index(name.index("deploys_root"), "root"),
        sa.Index(name.index("deploys_rerun_of"), "rerun_of"),
        sa.Index(name.index("deploys_rollback_to"), "rollback_to"),
        sa.Index(name.index("deploys_promoted_from"), "promoted_from"),
        sa.Index(name.index("deploys_replaces"), "replaces"),
        sa.Index(name.index("deploys_superseded_by"), "superseded_by"),
        _resolving(name),
        _ended(name),
        *_undone(name),
    )


def _resolving(name: Naming) -> sa.Index:
    where = sa.text("approval = 'resolving' AND state = 'DELAYED'")
    return sa.Index(
        name.index("deploys_resolving"), "approval_at", sqlite_where=where, postgresql_where=where
    )


def _ended(name: Naming) -> sa.Index:
    # Only what has ended: no earlier change of a deploy has to write it.
    where = sa.text("ended_at IS NOT NULL")
    return sa.Index(
        name.index("deploys_ended"), "ended_at", sqlite_where=where, postgresql_where=where
    )


def _undone(name: Naming) -> list[sa.Index]:
    # Few of many: what retention asks of the whole table.
    given_up = ("deploys_cancel_rollback", "cancel_rollback", "cancel_rollback = 1")
    back = ("deploys_rollback", "kind = 'rollback'", "kind = 'rollback'")
    return [
        sa.Index(
            name.index(index),
            "application", "environment", "version",
            postgresql_where=sa.text(where), sqlite_where=sa.text(lite),
        )
        for index, where, lite in (given_up, back)
    ]  # fmt: skip


def _request(name: Naming) -> list[sa.Column[Any]]:
    """What was asked, and the order made of it."""
    return [
        text("id", primary=True),
        refers("environment", name.key("name", "environments")),
        text("application"),
        count("number"),
        text("kind"),
        text("version"),
        text("sha256", null=True),
        text("state"),
        text("phase", null=True),
        text("outcome", null=True),
        text("reason", null=True),
        text("requested_by"),
        text("origin"),
        at("requested_at", null=False),
        json("order_body"),
        integer("order_shape"),
        text("order_digest"),
        text("pool"),
        integer("priority"),
        count("sequence", null=True),
        count("ticket", null=True),
        at("queued_at"),
        text("trace", null=True),
        at("not_before"),
        at("not_after"),
        json("override"),
    ]


def _progress() -> list[sa.Column[Any]]:
    """Who runs it, since when, until when."""
    return [
        integer("pass_number"),
        integer("dispatch"),
        at("dispatched_at"),
        text("workflow_version", null=True),
        count("epoch"),
        text("executor", null=True),
        text("incarnation", null=True),
        at("started_at"),
        at("handed_out_at"),
        at("deadline_at"),
        at("ended_at"),
        at("cancel_requested_at"),
        text("cancel_by", null=True),
        flag("cancel_rollback"),
        text("cancel_reason", null=True),
        json("prepared"),
        json("question"),
        json("error"),
        json("warnings"),
        json("links"),
        json("changes"),
        json("requester"),
        text("approval", null=True),
        text("approval_digest", null=True),
        at("approval_at"),
        json("resolved"),
        text("blocked", null=True),
        count("revision"),
        count("log_next"),
        count("log_bytes"),
        count("log_dropped"),
    ]


def _links(name: Naming) -> list[sa.Column[Any]]:
    """The deploys it comes from, goes back to, or gave way to."""
    return [
        text("root"),
        refers("rerun_of", name.key("id", "deploys"), null=True),
        text("rerun_from", null=True),
        refers("rollback_to", name.key("id", "deploys"), null=True),
        refers("promoted_from", name.key("id", "deploys"), null=True),
        refers("replaces", name.key("id", "deploys", on_delete="SET NULL"), null=True),
        refers("superseded_by", name.key("id", "deploys", on_delete="SET NULL"), null=True),
    ]


def _places(name: Naming, create: Create) -> None:
    deploy: sa.Column[str] = sa.Column(
        "deploy", sa.Text, name.key("id", "deploys"), nullable=False, unique=True
    )
    create(
        "slots",
        refers("environment", name.key("name", "environments"), primary=True),
        text("application", primary=True),
        integer("place"),
        deploy,
        at("taken_at", null=False),
        sa.UniqueConstraint("environment", "place", name="manent_slots_place"),
    )
    create(
        "wakes",
        refers("deploy", name.key("id", "deploys", on_delete="CASCADE"), primary=True),
        at("at", null=False),
        text("reason"),
        sa.Index(name.index("wakes_at"), "at"),
    )


def _steps(name: Naming, create: Create) -> None:
    create(
        "steps",
        refers("deploy", name.key("id", "deploys", on_delete="CASCADE"), primary=True),
        integer("pass_number", primary=True),
        text("name", primary=True),
        integer("position"),
        text("hook"),
        text("target", null=True),
        integer("wave", null=True),
        text("state"),
        integer("failures"),
        json("outputs"),
        json("error"),
        json("checkpoint"),
        at("started_at"),
        at("next_try_at"),
        at("ended_at"),
        text("carried_from", null=True),
    )


def _attempts(name: Naming, create: Create) -> None:
    create(
        "attempts",
        text("id", primary=True),
        refers("deploy", name.key("id", "deploys", on_delete="CASCADE")),
        integer("pass_number"),
        text("step"),
        integer("attempt"),
        text("application"),
        text("environment"),
        text("hook"),
        text("target"),
        text("plugin"),
        count("epoch"),
        text("executor"),
        text("incarnation"),
        text("hostname"),
        text("boot"),
        text("pid_namespace"),
        text("lock_file"),
        at("handed_out_at", null=False),
        at("lease_until"),
        at("ended_at"),
        text("result", null=True),
        sa.Column("died", sa.Boolean, nullable=True),
        text("resolved", null=True),
        json("error"),
        json("outputs"),
        json("checkpoint"),
        json("progress"),
        sa.UniqueConstraint(
            "deploy", "pass_number", "step", "attempt", name="manent_attempts_number"
        ),
        sa.Index(name.index("attempts_place"), "environment", "application", "ended_at"),
        sa.Index(name.index("attempts_executor"), "executor", "ended_at"),
    )


def _logs(name: Naming, create: Create) -> None:
    create(
        "logs",
        refers("deploy", name.key("id", "deploys", on_delete="CASCADE"), primary=True),
        sa.Column("sequence", BIG, primary_key=True, autoincrement=False),
        integer("lines"),
        integer("size"),
        at("at", null=False),
        text("step", null=True),
        integer("attempt", null=True),
        text("stream"),
        text("level", null=True),
        text("text"),
        text("executor", null=True),
    )


def _inventory(name: Naming, create: Create) -> None:
    create(
        "inventory",
        text("application", primary=True),
        refers("environment", name.key("name", "environments"), primary=True),
        text("target", primary=True),
        text("version", null=True),
        text("sha256", null=True),
        text("configuration", null=True),
        json("outputs"),
        at("since", null=False),
        refers("deploy", name.key("id", "deploys")),
        text("state"),
        sa.Index(name.index("inventory_deploy"), "deploy"),
    )


def _marks(name: Naming, create: Create) -> None:
    """Locks, freezes, holds, vetoes and stops."""
    create(
        "marks",
        text("id", primary=True),
        text("sort"),
        text("application", null=True),
        text("environment", null=True),
        text("version", null=True),
        text("reason"),
        text("owner"),
        at("created_at", null=False),
        at("starts_at"),
        at("expires_at"),
        at("lifted_at"),
        text("lifted_by", null=True),
        flag("automatic"),
        refers("deploy", name.key("id", "deploys", on_delete="SET NULL"), null=True),
        sa.Index(name.index("marks_in_force"), "lifted_at", "expires_at"),
        sa.Index(name.index("marks_deploy"), "deploy"),
    )


def _engine(create: Create) -> None:
    """Which releases of the durable execution library have made their tables here."""
    create("engine_versions", text("version", primary=True), at("migrated_at", null=False))
