"""Columns as revisions write them: one meaning on both databases.

Revisions rest on these for ever: add to them, never change one.
"""

from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

BIG: Final = sa.BigInteger().with_variant(sqlite.INTEGER(), "sqlite")
JSON: Final = sa.JSON(none_as_null=True).with_variant(
    postgresql.JSONB(none_as_null=True), "postgresql"
)
# ISO text in UTC on SQLite, which has no type for it.
INSTANT: Final = sa.DateTime(timezone=True).with_variant(sqlite.VARCHAR(27), "sqlite")


def text(column: str, *, null: bool = False, primary: bool = False) -> sa.Column[str]:
    """Text of any length."""
    return sa.Column(column, sa.Text, nullable=null, primary_key=primary)


def integer(column: str, *, null: bool = False, primary: bool = False) -> sa.Column[int]:
    """A small number."""
    return sa.Column(column, sa.Integer, nullable=null, primary_key=primary)


def count(column: str, *, null: bool = False) -> sa.Column[int]:
    """A number that may grow beyond 32 bits."""
    return sa.Column(column, BIG, nullable=null)


def flag(column: str) -> sa.Column[bool]:
    """True or false."""
    return sa.Column(column, sa.Boolean, nullable=False)


def at(column: str, *, null: bool = True) -> sa.Column[datetime]:
    """A moment in UTC."""
    return sa.Column(column, INSTANT, nullable=null)


def json(column: str) -> sa.Column[Any]:
    """A JSON value; null is SQL's NULL."""
    return sa.Column(column, JSON, nullable=True)


def refers(
    column: str, key: sa.ForeignKey, *, null: bool = False, primary: bool = False
) -> sa.Column[str]:
    """Text that names a row of another table."""
    return sa.Column(column, sa.Text, key, nullable=null, primary_key=primary)
