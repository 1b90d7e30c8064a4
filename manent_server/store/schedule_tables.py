"""Schedules, and what became of each instant at which one was to fire."""

import sqlalchemy as sa

from manent_server.store.column import Instant
from manent_server.store.naming import Naming, at, count, index, table, text


def schedules(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """What is to be deployed when, and the instants that have come."""
    return {
        **table(meta, name, "schedules", *_schedules(name)),
        **table(meta, name, "schedule_runs", *_runs(name)),
    }


def _schedules(name: Naming) -> list[sa.schema.SchemaItem]:
    """One row for each; a deleted one keeps its row and gives its name away."""
    return [
        text("id", primary=True),
        text("name"),
        # The name while it is not deleted.
        sa.Column("unique_name", sa.Text, nullable=True, unique=True),
        text("application"),
        text("environment"),
        text("cron"),
        text("timezone"),
        text("source"),
        text("version", null=True),
        text("source_environment", null=True),
        text("overlap"),
        # Microseconds.
        count("catch_up", null=True),
        text("reason", null=True),
        text("created_by"),
        # The login of the person who stands behind it; null: a program's, and nobody knows whose.
        text("behind", null=True),
        at("created_at", null=False),
        at("paused_at"),
        text("paused_by", null=True),
        text("pause_reason", null=True),
        at("deleted_at"),
        text("deleted_by", null=True),
        # The first instant nothing is decided of; none while it is paused.
        at("next_at"),
        index(name, "schedules_due", ["next_at"]),
    ]


def _runs(name: Naming) -> list[sa.schema.SchemaItem]:
    """One row for each instant that has come: its key keeps it from firing twice."""
    return [
        sa.Column(
            "schedule", sa.Text, name.key("id", "schedules", on_delete="CASCADE"), primary_key=True
        ),
        sa.Column("at", Instant, primary_key=True),
        text("result"),
        text("reason", null=True),
        text("detail", null=True),
        sa.Column(
            "deploy",
            sa.Text,
            name.key("id", "deploys", on_delete="SET NULL"),
            nullable=True,
            unique=True,
        ),
        at("settled_at", null=False),
        index(name, "schedule_runs_result", ["schedule", "result", "at"]),
    ]
