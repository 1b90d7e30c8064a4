"""What the gates of an environment are judged by, read in one transaction."""

from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain import rules
from manent_server.domain.gates import Facts
from manent_server.domain.rules import Rules
from manent_server.store import marks
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction


def read(tx: Transaction, environment: str) -> Facts:
    """The facts of an environment as they are now."""
    at = tx.now()
    return Facts(at=at, rules=rules_of(tx, environment), marks=marks.standing(tx, at=at))


def rules_of(tx: Transaction, environment: str) -> Rules:
    """The rules in force there."""
    query = _rules(tx.tables)
    row = tx.connection.execute(query, {"name": environment}).one_or_none()
    return rules.load((row[0] if row else None) or {})


@cache
def _rules(tables: Tables) -> sa.Select[Any]:
    e = tables.environments
    return sa.select(e.c.rules).where(e.c.name == sa.bindparam("name"))
