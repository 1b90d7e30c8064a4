"""Who gets in: tokens, and the idempotency keys of each principal."""

import sqlalchemy as sa

from manent_server.store.naming import Naming, at, json, table, text


def access(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """Tokens and idempotency keys."""
    return {
        **table(meta, name, "tokens", *_tokens()),
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


def _keys() -> list[sa.schema.SchemaItem]:
    return [
        text("principal", primary=True),
        text("path", primary=True),
        text("key", primary=True),
        text("body_digest"),
        text("subject"),
        at("created_at", null=False),
    ]
