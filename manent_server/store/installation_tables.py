"""What is known of the installation itself, and what was decided while it was fenced."""

import sqlalchemy as sa

from manent_server.store.naming import Naming, at, count, table, text


def installation(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """The one row of the installation, and deploys that may go on when it is opened."""
    one: list[sa.schema.SchemaItem] = [
        sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
        text("id"),
        count("epoch"),
        # The number of the audit after which the epoch began.
        count("began"),
        at("created_at", null=False),
        # How often every process was asked to take up its files anew.
        count("reload_asked"),
        # From here on: why nothing may begin; null while everything may.
        at("fenced_at"),
        text("fenced_by", null=True),
        # How far the database had come when it was fenced, and how far it is known to have been.
        count("restored_epoch", null=True),
        count("restored_number", null=True),
        count("known_epoch", null=True),
        count("known_number", null=True),
        sa.CheckConstraint("one = 1", name="manent_installation_one"),
    ]
    resumed: list[sa.schema.SchemaItem] = [
        sa.Column(
            "deploy", sa.Text, name.key("id", "deploys", on_delete="CASCADE"), primary_key=True
        ),
        text("decided_by"),
        at("decided_at", null=False),
        text("reason", null=True),
    ]
    return {
        **table(meta, name, "installation", *one),
        **table(meta, name, "resumed", *resumed),
    }
