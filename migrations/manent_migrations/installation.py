"""The tables of the installation itself, as the first revision makes them."""

from collections.abc import Callable

import sqlalchemy as sa

from manent_migrations.column import at, count, text
from manent_migrations.naming import Naming

Create = Callable[..., None]


def create_tables(name: Naming, create: Create) -> None:
    """The one row of the installation, and deploys that may go on when it is opened."""
    create(
        "installation",
        sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
        text("id"),
        count("epoch"),
        count("began"),
        at("created_at", null=False),
        count("reload_asked"),
        at("fenced_at"),
        text("fenced_by", null=True),
        count("restored_epoch", null=True),
        count("restored_number", null=True),
        count("known_epoch", null=True),
        count("known_number", null=True),
        sa.CheckConstraint("one = 1", name="manent_installation_one"),
    )
    create(
        "resumed",
        sa.Column(
            "deploy", sa.Text, name.key("id", "deploys", on_delete="CASCADE"), primary_key=True
        ),
        text("decided_by"),
        at("decided_at", null=False),
        text("reason", null=True),
    )
