"""The tables of events and notices, as the first revision makes them: never changed again."""

from collections.abc import Callable

import sqlalchemy as sa

from manent_migrations.column import BIG, at, count, integer, json, text
from manent_migrations.naming import Naming

Create = Callable[..., None]


def create_tables(name: Naming, create: Create) -> None:
    """The outbox and who is told of what."""
    _events(name, create)
    _notices(name, create)
    create("tallies", text("name", primary=True), text("labels", primary=True), count("value"))


def _events(name: Naming, create: Create) -> None:
    """The outbox, numbered after the commit."""
    unnumbered = sa.text("position IS NULL")
    create(
        "events",
        sa.Column("entry", BIG, primary_key=True, autoincrement=True),
        text("id"),
        count("position", null=True),
        at("at", null=False),
        text("type"),
        text("actor"),
        text("deploy", null=True),
        text("application", null=True),
        text("environment", null=True),
        json("detail"),
        sa.UniqueConstraint("position", name="manent_events_position"),
        sa.Index(
            name.index("events_untold"),
            "entry",
            sqlite_where=unnumbered,
            postgresql_where=unnumbered,
        ),
    )


def _notices(name: Naming, create: Create) -> None:
    """Who is told of which event, and the sinks that are turned off."""
    waiting = sa.text("done_at IS NULL")
    create(
        "notices",
        text("id", primary=True),
        text("sink"),
        sa.Column("event", BIG, name.key("entry", "events", on_delete="CASCADE"), nullable=False),
        text("state"),
        at("created_at", null=False),
        integer("tries"),
        at("next_try_at"),
        at("expires_at", null=False),
        at("done_at"),
        integer("status", null=True),
        text("error", null=True),
        sa.UniqueConstraint("event", "sink", name="manent_notices_event"),
        sa.Index(
            name.index("notices_waiting"),
            "sink",
            "next_try_at",
            sqlite_where=waiting,
            postgresql_where=waiting,
        ),
        sa.Index(name.index("notices_recent"), "state", "event", "id"),
    )
    create("sinks", text("name", primary=True), at("off_at", null=False), text("reason"))
