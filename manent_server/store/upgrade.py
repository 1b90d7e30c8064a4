"""Our revisions, applied by Alembic; imported only where there is something to apply."""

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from manent_migrations import FOLDER


def to_head(connection: sa.Connection) -> None:
    """Apply every revision this database lacks, each in a transaction of its own."""
    command.upgrade(config(connection), "head")


def config(connection: sa.Connection) -> Config:
    """Alembic's configuration for our revisions over this connection."""
    found = Config()
    found.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    found.attributes["connection"] = connection
    return found
