"""How tables, their columns and their keys are written, on either database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from manent_server.store.column import Big, Instant, Json

SCHEMA = "manent"


@dataclass(frozen=True)
class Naming:
    """How a table is called in one dialect; `manent_migrations.naming` is its twin."""

    dialect: str

    @property
    def schema(self) -> str | None:
        """The schema, where the dialect has them."""
        return None if self.dialect == "sqlite" else SCHEMA

    def table(self, name: str) -> str:
        """The table's name in the database."""
        return f"{SCHEMA}_{name}" if self.dialect == "sqlite" else name

    def index(self, name: str) -> str:
        """The index's name in the database."""
        # Index names share one space per schema on Postgres and per file on SQLite.
        return f"manent_{name}"

    def key(self, column: str, table: str, *, on_delete: str = "RESTRICT") -> sa.ForeignKey:
        """A reference to a column of another table."""
        target = self.table(table)
        prefix = f"{self.schema}." if self.schema else ""
        return sa.ForeignKey(f"{prefix}{target}.{column}", ondelete=on_delete)


def table(
    meta: sa.MetaData, name: Naming, table: str, *parts: sa.schema.SchemaItem
) -> dict[str, sa.Table]:
    """A table, by its name in the design."""
    return {table: sa.Table(name.table(table), meta, *parts, schema=name.schema)}


def index(name: Naming, index: str, columns: Sequence[str | sa.ColumnElement[Any]]) -> sa.Index:
    """An index over columns."""
    return sa.Index(name.index(index), *columns)


def text(column: str, *, null: bool = False, primary: bool = False) -> sa.Column[str]:
    """A text column."""
    return sa.Column(column, sa.Text, nullable=null, primary_key=primary)


def at(column: str, *, null: bool = True) -> sa.Column[datetime]:
    """An instant."""
    return sa.Column(column, Instant, nullable=null)


def json(column: str) -> sa.Column[Any]:
    """A JSON value or nothing."""
    return sa.Column(column, Json, nullable=True)


def count(column: str, *, null: bool = False) -> sa.Column[int]:
    """A whole number that may grow large."""
    return sa.Column(column, Big, nullable=null)
