"""What somebody may see, as a condition on rows that name an application and an environment."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from manent_server.domain.access import Area, Scope

Column = sa.ColumnElement[Any]
_ESCAPE = "\\"


def within(
    query: sa.Select[Any], scope: Scope, application: Column, environment: Column
) -> sa.Select[Any]:
    """Only rows whose place lies within the scope; who sees everything pays nothing for it."""
    return query.where(*covered(scope, application, environment))


def covered(scope: Scope, application: Column, environment: Column) -> list[Column]:
    """What is true of rows whose place lies within the scope: nothing if that is everywhere."""
    if scope.is_everywhere:
        return []
    allowed = [_inside(area, application, environment) for area in scope.allowed]
    denied = [_inside(area, application, environment) for area in scope.denied]
    return [sa.or_(sa.false(), *allowed), *(sa.not_(condition) for condition in denied)]


def touching(
    query: sa.Select[Any], scope: Scope, application: Column, environment: Column
) -> sa.Select[Any]:
    """Only rows that are about something within the scope; NULL is all of them."""
    if scope.is_everywhere:
        return query
    allowed = [
        sa.and_(
            sa.or_(application.is_(None), _named(area.applications, application)),
            sa.or_(environment.is_(None), _named(area.environments, environment)),
        )
        for area in scope.allowed
    ]
    denied = [_inside(area, application, environment) for area in scope.denied]
    return query.where(
        sa.or_(sa.false(), *allowed),
        # NULL is covered only by what covers every name: there the condition is plainly true.
        *(sa.not_(sa.func.coalesce(condition, sa.false())) for condition in denied),
    )


def _inside(area: Area, application: Column, environment: Column) -> sa.ColumnElement[bool]:
    return sa.and_(_named(area.applications, application), _named(area.environments, environment))


def _named(patterns: Sequence[str], column: Column) -> sa.ColumnElement[bool]:
    if "*" in patterns:
        return sa.true()
    plain = [one for one in patterns if "*" not in one and "?" not in one]
    shaped = [_like(one) for one in patterns if one not in plain]
    conditions = [column.like(one, escape=_ESCAPE) for one in shaped]
    if plain:
        conditions.append(column.in_(plain))
    return sa.or_(*conditions)


def _like(pattern: str) -> str:
    escaped = pattern.replace("_", f"{_ESCAPE}_")
    return escaped.replace("*", "%").replace("?", "_")
