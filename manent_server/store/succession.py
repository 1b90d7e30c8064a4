"""Which deploy came later: it decides what is outdated in its place."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain.deploy import State
from manent_server.store.deploys import Deploy
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Age:
    """How old a request is: a rerun is as old as the first deploy of its root.

    `number` None is a request that is only just made, `root` None one without reruns.
    """

    number: int | None = None
    sequence: int | None = None
    root: str | None = None


@dataclass(frozen=True)
class Later:
    """A deploy that came later and has succeeded."""

    id: str
    version: str


def age(tx: Transaction, deploy: Deploy) -> Age:
    """How old a deploy is."""
    number = deploy.number if deploy.rerun_of is None else number_of(tx, deploy.root)
    return Age(number, deploy.sequence, deploy.root)


def number_of(tx: Transaction, deploy: str) -> int | None:
    """The number of a deploy in its environment; None if it is gone."""
    d = tx.tables.deploys
    return tx.connection.execute(sa.select(d.c.number).where(d.c.id == deploy)).scalar_one_or_none()


def later_success(tx: Transaction, place: tuple[str, str], than: Age) -> Later | None:
    """A deploy of (application, environment) that is later and has succeeded.

    Later by `sequence` where both carry one, else by the number its root was accepted with.
    """
    values = {"application": place[0], "environment": place[1], "number": than.number}
    values |= {"root": than.root, "sequence": than.sequence}
    is_rerun = than.root is not None
    if than.sequence is not None:
        later = _first(tx, _higher(tx.tables, is_rerun=is_rerun), values)
        if later is not None or than.number is None:
            return later
    if than.number is None:
        return None
    return _first(
        tx, _newer(tx.tables, is_rerun=is_rerun, without=than.sequence is not None), values
    )


def _first(tx: Transaction, query: sa.Select[Any], values: Mapping[str, Any]) -> Later | None:
    row = tx.connection.execute(query, values).one_or_none()
    return Later(*row) if row else None


@cache
def _higher(tables: Tables, *, is_rerun: bool) -> sa.Select[Any]:
    """Later by its sequence."""
    is_higher = tables.deploys.c.sequence > sa.bindparam("sequence")
    return _successes(tables, is_rerun=is_rerun).where(is_higher)


@cache
def _newer(tables: Tables, *, is_rerun: bool, without: bool) -> sa.Select[Any]:
    """Later by the number of its root; `without`: of those that carry no sequence."""
    d, given = tables.deploys, sa.bindparam
    # No root is younger than its reruns: the first condition lets an index begin there.
    r = d.alias("roots")
    is_later = sa.exists().where(r.c.id == d.c.root, r.c.number > given("number"))
    query = _successes(tables, is_rerun=is_rerun).where(d.c.number > given("number"), is_later)
    return query.where(d.c.sequence.is_(None)) if without else query


@cache
def _successes(tables: Tables, *, is_rerun: bool) -> sa.Select[Any]:
    """The last that succeeded there; of a rerun's own root none."""
    d, given = tables.deploys, sa.bindparam
    query = sa.select(d.c.id, d.c.version).where(
        d.c.application == given("application"),
        d.c.environment == given("environment"),
        d.c.state == State.SUCCESS,
    )
    query = query.order_by(d.c.number.desc()).limit(1)
    return query.where(d.c.root != given("root")) if is_rerun else query
