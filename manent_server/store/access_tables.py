"""Who gets in: tokens, sessions, and the idempotency keys of each principal."""

import sqlalchemy as sa

from manent_server.store.naming import Naming, at, index, json, table, text


def access(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """Tokens, sessions and idempotency keys."""
    return {
        **table(meta, name, "tokens", *_tokens()),
        **table(meta, name, "sessions", *_sessions(name)),
        **table(meta, name, "keys", *_keys()),
    }


def _tokens() -> list[sa.schema.SchemaItem]:
    """One row for each, which holds a digest; several may share a name."""
    return [
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
    ]


def _sessions(name: Naming) -> list[sa.schema.SchemaItem]:
    """One row for each sign-in by an identity provider; it holds digests."""
    return [
        text("id", primary=True),
        text("hash"),
        # The digest of the assertion it was made for: each is good for one.
        text("proof"),
        # oidc:NAME or trust:NAME, a key of `access`; what it may stands there.
        text("source"),
        text("principal"),
        json("groups"),
        # SYSTEM:ID of the person for whom a CI job runs.
        text("actor", null=True),
        at("created_at", null=False),
        at("expires_at", null=False),
        at("revoked_at"),
        # Null: it has not, or has signed out.
        text("revoked_by", null=True),
        sa.UniqueConstraint("hash", name="manent_sessions_hash"),
        sa.UniqueConstraint("proof", name="manent_sessions_proof"),
        index(name, "sessions_end", ["expires_at"]),
    ]


def _keys() -> list[sa.schema.SchemaItem]:
    return [
        text("principal", primary=True),
        text("path", primary=True),
        text("key", primary=True),
        text("body_digest"),
        text("subject"),
        at("created_at", null=False),
    ]
