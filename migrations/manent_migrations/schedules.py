"""The tables of schedules: what is to be deployed when, and what became of each instant."""

from collections.abc import Callable

import sqlalchemy as sa

from manent_migrations.column import INSTANT, at, count, refers, text
from manent_migrations.naming import Naming


def create(name: Naming, table: Callable[..., None]) -> None:
    """Make both tables; revisions rest on this for ever."""
    table(
        "schedules",
        text("id", primary=True),
        text("name"),
        sa.Column("unique_name", sa.Text, nullable=True, unique=True),
        text("application"),
        text("environment"),
        text("cron"),
        text("timezone"),
        text("source"),
        text("version", null=True),
        text("source_environment", null=True),
        text("overlap"),
        count("catch_up", null=True),
        text("reason", null=True),
        text("created_by"),
        text("behind", null=True),
        at("created_at", null=False),
        at("paused_at"),
        text("paused_by", null=True),
        text("pause_reason", null=True),
        at("deleted_at"),
        text("deleted_by", null=True),
        at("next_at"),
        sa.Index(name.index("schedules_due"), "next_at"),
    )
    deploy: sa.Column[str | None] = sa.Column(
        "deploy",
        sa.Text,
        name.key("id", "deploys", on_delete="SET NULL"),
        nullable=True,
        unique=True,
    )
    table(
        "schedule_runs",
        refers("schedule", name.key("id", "schedules", on_delete="CASCADE"), primary=True),
        sa.Column("at", INSTANT, primary_key=True),
        text("result"),
        text("reason", null=True),
        text("detail", null=True),
        deploy,
        at("settled_at", null=False),
        sa.Index(name.index("schedule_runs_result"), "schedule", "result", "at"),
    )
