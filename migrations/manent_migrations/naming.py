"""How tables are called: in schema `manent` on Postgres, with a prefix on SQLite."""

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

SCHEMA: Final = "manent"


@dataclass(frozen=True)
class Naming:
    """Names of one dialect (`sqlite` or `postgresql`)."""

    dialect: str

    @property
    def schema(self) -> str | None:
        """The schema of every table."""
        return None if self.dialect == "sqlite" else SCHEMA

    def table(self, name: str) -> str:
        """The table's name inside its schema."""
        return f"{SCHEMA}_{name}" if self.dialect == "sqlite" else name

    def index(self, name: str) -> str:
        """An index's name: one space per schema on Postgres, per file on SQLite."""
        return f"{SCHEMA}_{name}"

    def key(self, column: str, table: str, *, on_delete: str = "RESTRICT") -> sa.ForeignKey:
        """A foreign key to `column` of `table`."""
        prefix = f"{self.schema}." if self.schema else ""
        return sa.ForeignKey(f"{prefix}{self.table(table)}.{column}", ondelete=on_delete)
