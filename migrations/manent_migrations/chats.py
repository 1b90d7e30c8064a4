"""The tables of chats, as the first revision makes them: never changed again."""

from collections.abc import Callable

import sqlalchemy as sa

from manent_migrations.column import at, text
from manent_migrations.naming import Naming

Create = Callable[..., None]


def create_tables(name: Naming, create: Create) -> None:
    """Messages, requests that were seen, accounts, and how far a chat was read."""
    create(
        "chat_messages",
        # First: a deploy that is pruned takes its messages with it.
        sa.Column(
            "deploy", sa.Text, name.key("id", "deploys", on_delete="CASCADE"), primary_key=True
        ),
        text("chat", primary=True),
        text("channel"),
        text("message", null=True),
        text("digest"),
        text("shown"),
        at("told_at", null=False),
        sa.Index(name.index("chat_messages_message"), "chat", "message"),
    )
    create(
        "chat_seen",
        text("chat", primary=True),
        text("nonce", primary=True),
        text("writer"),
        at("expires_at", null=False),
        sa.Index(name.index("chat_seen_expires"), "expires_at"),
    )
    _links(create)
    create(
        "chat_cursors",
        text("chat", primary=True),
        text("channel"),
        text("cursor"),
        at("moved_at", null=False),
    )


def _links(create: Create) -> None:
    create(
        "chat_links",
        text("chat", primary=True),
        text("account", primary=True),
        text("code", null=True),
        at("code_expires_at"),
        text("principal", null=True),
        text("login", null=True),
        text("session", null=True),
        at("linked_at"),
        sa.UniqueConstraint("code", name="manent_chat_links_code"),
    )
