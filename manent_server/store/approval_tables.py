"""Approvals: what deploys ask of people, and what was said."""

import sqlalchemy as sa

from manent_server.store.naming import Naming, at, index, json, table, text


def approvals(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """A row for each rule of a deploy and each digest it is asked for; votes are never changed."""
    waiting = sa.text("state = 'waiting'")
    asked: list[sa.schema.SchemaItem] = [
        text("id", primary=True),
        sa.Column(
            "deploy", sa.Text, name.key("id", "deploys", on_delete="CASCADE"), nullable=False
        ),
        text("application"),
        text("environment"),
        text("rule"),
        sa.Column("position", sa.Integer, nullable=False),
        json("body"),
        text("digest"),
        # waiting, approved, rejected, expired, void or ended
        text("state"),
        at("asked_at", null=False),
        at("expires_at"),
        at("reminded_at"),
        at("closed_at"),
        sa.UniqueConstraint("deploy", "rule", "asked_at", name="manent_approvals_asked"),
        index(name, "approvals_recent", ["asked_at", "id"]),
        sa.Index(
            name.index("approvals_waiting"),
            "asked_at",
            "id",
            sqlite_where=waiting,
            postgresql_where=waiting,
        ),
    ]
    votes: list[sa.schema.SchemaItem] = [
        text("id", primary=True),
        sa.Column(
            "approval", sa.Text, name.key("id", "approvals", on_delete="CASCADE"), nullable=False
        ),
        # The person, or `service:` and the principal: by it voters are distinct.
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
    ]
    return {
        **table(meta, name, "approvals", *asked),
        **table(meta, name, "votes", *votes),
    }
