"""Events, who is told of them, and how far that came."""

import sqlalchemy as sa

from manent_server.store.column import Big
from manent_server.store.naming import Naming, at, count, index, json, table, text


def notices(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """One row for each event a sink is told of, and the sinks that are turned off."""
    waiting = sa.text("done_at IS NULL")
    return {
        **table(
            meta,
            name,
            "notices",
            text("id", primary=True),
            text("sink"),
            sa.Column(
                "event", Big, name.key("entry", "events", on_delete="CASCADE"), nullable=False
            ),
            text("state"),
            at("created_at", null=False),
            sa.Column("tries", sa.Integer, nullable=False),
            at("next_try_at"),
            # After it nothing is tried any more, whatever the receiver says.
            at("expires_at", null=False),
            at("done_at"),
            sa.Column("status", sa.Integer, nullable=True),
            text("error", null=True),
            sa.UniqueConstraint("event", "sink", name="manent_notices_event"),
            sa.Index(
                name.index("notices_waiting"),
                "sink",
                "next_try_at",
                sqlite_where=waiting,
                postgresql_where=waiting,
            ),
            index(name, "notices_recent", ["state", "event", "id"]),
        ),
        **table(
            meta,
            name,
            "sinks",
            text("name", primary=True),
            at("off_at", null=False),
            text("reason"),
        ),
    }


def events(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """The outbox: what happened, a row for each."""
    return table(
        meta,
        name,
        "events",
        # In the order of writing; what commits late has a low one, so nobody resumes by it.
        sa.Column("entry", Big, primary_key=True, autoincrement=True),
        text("id"),
        # Given after the commit, without a hole; until then the row is in nobody's stream.
        count("position", null=True),
        at("at", null=False),
        text("type"),
        text("actor"),
        text("deploy", null=True),
        text("application", null=True),
        text("environment", null=True),
        json("detail"),
        sa.UniqueConstraint("position", name="manent_events_position"),
        _untold(name),
    )


def tallies(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """What events add up to: it outlives them, and the deploys they are about."""
    return table(
        meta,
        name,
        "tallies",
        text("name", primary=True),
        text("labels", primary=True),
        count("value"),
    )


def _untold(name: Naming) -> sa.Index:
    where = sa.text("position IS NULL")
    return sa.Index(
        name.index("events_untold"), "entry", sqlite_where=where, postgresql_where=where
    )
