"""A long history on Postgres, made in the database from one deploy that really ran.

Deploys of many applications in some environments, the newest last, with the ends they come to; each
with its steps, attempts and log rows as far as they are asked for. A million take less
than a minute.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg
import sqlalchemy as sa

from manent_server.store.tables import Tables

APPLICATIONS: Final = 200
ENVIRONMENTS: Final = 6
PLACES: Final = APPLICATIONS * ENVIRONMENTS
_ENDS: Final = """CASE WHEN n %% 1000 = 0 THEN '{rare}' WHEN n %% 10 = 3 THEN '{bad}'
 WHEN n %% 20 = 5 THEN '{cancelled}' ELSE '{good}' END"""


@dataclass(frozen=True)
class Flood:
    """So much of it.

    Attributes:
        deploys: How many.
        log_rows: Of each.
        has_work: Whether they have steps and attempts.
        age: How many days ago the newest of them ended.
    """

    deploys: int
    log_rows: int = 0
    has_work: bool = False
    age: int = 1


def pour(url: str, tables: Tables, template: str, flood: Flood) -> None:
    """Write it.

    Args:
        url: Of the database.
        tables: Of the product.
        template: The id of an ended deploy whose rows are copied.
        flood: How much.
    """
    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")  # no look at each reference
        connection.execute("SET synchronous_commit = off")
        connection.execute("SET maintenance_work_mem = '256MB'")
        given = {"of": template, "count": flood.deploys, "rows": flood.log_rows}
        indexes = _drop_indexes(connection, tables.deploys.name)
        for statement in _statements(tables, flood):
            connection.execute(statement.encode(), given)
        for index in indexes:
            connection.execute(index.encode())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _drop_indexes(connection: psycopg.Connection[Any], table: str) -> list[str]:
    """Those that guard nothing; what makes them again, which is faster than to keep them."""
    query = """SELECT i.schemaname, i.indexname, i.indexdef FROM pg_indexes i WHERE i.tablename = %s
        AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conname = i.indexname)"""
    found = connection.execute(query, [table]).fetchall()
    for schema, name, _ in found:
        connection.execute(f'DROP INDEX "{schema}"."{name}"'.encode())
    return [made for _, _, made in found]


def _statements(tables: Tables, flood: Flood) -> list[str]:
    series = "generate_series(1, %(count)s::int) n"
    found = [
        _names(tables.environments, f"'env-' || (n - 1) %% {ENVIRONMENTS}", ENVIRONMENTS),
        _names(tables.applications, f"'app-' || (n - 1) %% {APPLICATIONS}", APPLICATIONS),
        _copy(tables.deploys, "id", _deploy(flood.age), series),
    ]
    if flood.has_work:
        found += [
            _copy(tables.steps, "deploy", {"deploy": _ID}, series),
            _copy(tables.attempts, "deploy", {"deploy": _ID, "id": f"{_ID} || t.id"}, series),
        ]
    if flood.log_rows:
        found.append(_LINES.format(logs=tables.logs.fullname, id=_ID))
    return found


_ID: Final = "lpad(to_hex(n), 20, '0')"
_LINES: Final = """INSERT INTO {logs}
    (deploy, sequence, lines, size, at, step, attempt, stream, text)
    SELECT {id}, m, 1, 80, now(), 'deploy:a', 1, 'stdout', 'line ' || m || repeat('.', 70)
    FROM generate_series(1, %(count)s::int) n, generate_series(1, %(rows)s::int) m"""


def _deploy(age: int) -> Mapping[str, str]:
    at = f"now() - interval '{age} days' - (%(count)s::int - n) * interval '1 minute'"
    return {
        "id": _ID,
        "root": _ID,
        "number": "n",
        "epoch": "n",
        "sequence": "NULL",
        "application": f"'app-' || (n / {ENVIRONMENTS}) %% {APPLICATIONS}",
        "environment": f"'env-' || n %% {ENVIRONMENTS}",
        "version": f"'v' || n / {ENVIRONMENTS}",
        "state": _ENDS.format(rare="ERROR", bad="ERROR", cancelled="CANCELLED", good="SUCCESS"),
        "outcome": _ENDS.format(
            rare="rollback_failed", bad="failed", cancelled="superseded", good="deployed"
        ),
        "requested_at": at,
        "started_at": at,
        "ended_at": f"{at} + interval '30 seconds'",
        "replaces": "NULL",
    }


def _names(table: sa.Table, name: str, count: int) -> str:
    """Copies of the row of some configured name."""
    series = f"generate_series(1, {count}) n"
    return _copy(table, "", {"name": name}, series) + " ON CONFLICT DO NOTHING"


def _copy(table: sa.Table, key: str, changed: Mapping[str, str], series: str) -> str:
    """Each row of the template once for every number of a series, with these changes."""
    columns = [column.name for column in table.columns]
    values = ", ".join(changed.get(name, f't."{name}"') for name in columns)
    names = ", ".join(f'"{name}"' for name in columns)
    whose = f"WHERE {key} = %(of)s" if key else "LIMIT 1"
    source = f"(SELECT * FROM {table.fullname} {whose}) t"  # noqa: S608 - names of ours
    return f"INSERT INTO {table.fullname} ({names}) SELECT {values} FROM {source}, {series}"  # noqa: S608 - names of ours
