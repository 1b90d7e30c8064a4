"""What the gates of an environment are judged by, read in one transaction."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain import rules
from manent_server.domain.gates import Asked, Facts
from manent_server.domain.rules import Rules
from manent_server.store import evidence, marks
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction


def read(tx: Transaction, environment: str, asked: Iterable[Asked] = ()) -> Facts:
    """The facts of an environment as they are now, with what the rules of these deploys ask for."""
    at = tx.now()
    place = Facts(at=at, rules=rules_of(tx, environment), marks=marks.standing(tx, at=at))
    return proven(tx, place, asked)


def proven(tx: Transaction, place: Facts, asked: Iterable[Asked]) -> Facts:
    """The same, with what runs where the promotion rules of these deploys look."""
    runs = evidence.runs(tx, asked)
    return replace(place, runs={**place.runs, **runs}) if runs else place


def rules_of(tx: Transaction, environment: str) -> Rules:
    """The rules in force there."""
    query = _rules(tx.tables)
    row = tx.connection.execute(query, {"name": environment}).one_or_none()
    return rules.load((row[0] if row else None) or {})


@cache
def _rules(tables: Tables) -> sa.Select[Any]:
    e = tables.environments
    return sa.select(e.c.rules).where(e.c.name == sa.bindparam("name"))
