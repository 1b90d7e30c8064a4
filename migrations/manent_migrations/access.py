"""The tables of who gets in: tokens, sessions, the idempotency keys of each principal."""

from collections.abc import Callable

import sqlalchemy as sa

from manent_migrations.column import at, json, text
from manent_migrations.naming import Naming


def create(name: Naming, table: Callable[..., None]) -> None:
    """Make the tables; revisions rest on this for ever."""
    table(
        "tokens",
        text("id", primary=True),
        text("name"),
        text("hash"),
        text("shown"),
        text("role"),
        text("kind"),
        json("groups"),
        json("applications"),
        json("environments"),
        text("created_by"),
        at("created_at", null=False),
        at("expires_at"),
        at("revoked_at"),
        at("last_used_at"),
        text("last_used_from", null=True),
        sa.UniqueConstraint("hash", name="manent_tokens_hash"),
    )
    table(
        "sessions",
        text("id", primary=True),
        text("hash"),
        text("proof"),
        text("source"),
        text("principal"),
        json("groups"),
        text("actor", null=True),
        at("created_at", null=False),
        at("expires_at", null=False),
        at("revoked_at"),
        text("revoked_by", null=True),
        sa.UniqueConstraint("hash", name="manent_sessions_hash"),
        sa.UniqueConstraint("proof", name="manent_sessions_proof"),
        sa.Index(name.index("sessions_end"), "expires_at"),
    )
    table(
        "keys",
        text("principal", primary=True),
        text("path", primary=True),
        text("key", primary=True),
        text("body_digest"),
        text("subject"),
        at("created_at", null=False),
    )
