"""The tables of approvals, as the first revision makes them: never changed again."""

from collections.abc import Callable

import sqlalchemy as sa

from manent_migrations.column import at, integer, json, refers, text
from manent_migrations.naming import Naming

Create = Callable[..., None]


def create(name: Naming, make: Create) -> None:
    """What deploys ask of people, and what was said."""
    waiting = sa.text("state = 'waiting'")
    make(
        "approvals",
        text("id", primary=True),
        refers("deploy", name.key("id", "deploys", on_delete="CASCADE")),
        text("application"),
        text("environment"),
        text("rule"),
        integer("position"),
        json("body"),
        text("digest"),
        text("state"),
        at("asked_at", null=False),
        at("expires_at"),
        at("reminded_at"),
        at("closed_at"),
        sa.UniqueConstraint("deploy", "rule", "asked_at", name="manent_approvals_asked"),
        sa.Index(name.index("approvals_recent"), "asked_at", "id"),
        sa.Index(
            name.index("approvals_waiting"),
            "asked_at",
            "id",
            sqlite_where=waiting,
            postgresql_where=waiting,
        ),
    )
    make(
        "votes",
        text("id", primary=True),
        refers("approval", name.key("id", "approvals", on_delete="CASCADE")),
        text("identity"),
        text("principal"),
        text("login", null=True),
        json("groups"),
        text("session"),
        text("decision"),
        text("comment", null=True),
        text("channel"),
        text("address", null=True),
        text("digest"),
        at("at", null=False),
        sa.UniqueConstraint("approval", "identity", "session", name="manent_votes_identity"),
    )
