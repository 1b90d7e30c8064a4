"""What is kept of chats: messages, requests that were seen, whose account is whose."""

import sqlalchemy as sa

from manent_server.store.naming import Naming, at, table, text


def chats(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """The tables of chats."""
    return {
        **table(meta, name, "chat_messages", *_messages(name)),
        **table(
            meta,
            name,
            "chat_seen",
            text("chat", primary=True),
            text("nonce", primary=True),
            # Who wrote it: a transaction that is repeated finds its own row.
            text("writer"),
            at("expires_at", null=False),
            sa.Index(name.index("chat_seen_expires"), "expires_at"),
        ),
        **table(meta, name, "chat_links", *_links()),
        **table(
            meta,
            name,
            "chat_cursors",
            text("chat", primary=True),
            text("channel"),
            text("cursor"),
            at("moved_at", null=False),
        ),
    }


def _messages(name: Naming) -> list[sa.schema.SchemaItem]:
    """One for each deploy and chat; `message` is null while it is not known to be there."""
    return [
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
    ]


def _links() -> list[sa.schema.SchemaItem]:
    """One for each account: a code that is out, and whose account it is once it was redeemed."""
    return [
        text("chat", primary=True),
        text("account", primary=True),
        text("code", null=True),
        at("code_expires_at"),
        text("principal", null=True),
        text("login", null=True),
        # The token or session it was linked with: revoked, it takes the link along.
        text("session", null=True),
        at("linked_at"),
        sa.UniqueConstraint("code", name="manent_chat_links_code"),
    ]
