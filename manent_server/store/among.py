"""Whether a row is among thousands: one parameter however many, so one statement for all."""

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from manent_server.store.transaction import Transaction


def among(tx: Transaction, column: sa.Column[str], ids: Sequence[str]) -> sa.ColumnElement[bool]:
    """The condition that the column holds one of these.

    Args:
        tx: The transaction it is for.
        column: A column of text.
        ids: Any number of texts.
    """
    if tx.dialect == "sqlite":
        given: Any = sa.func.json_each(sa.bindparam(None, json.dumps(list(ids)), sa.Text))
        value = given.table_valued("value")
        return column.in_(sa.select(value.c.value))
    array = sa.bindparam(None, list(ids), postgresql.ARRAY(sa.Text))
    return column == sa.any_(array)
