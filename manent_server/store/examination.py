"""What a check of an installation reads of the database itself."""

import sqlite3
from typing import Final

import sqlalchemy as sa

from manent_server.domain.checkup import HeldLease
from manent_server.store.engine import Engines
from manent_server.store.transaction import Transaction

_TABLES: Final = (
    "make the tables those of this release: manent-server migrate; where that does nothing restore "
    "a backup, or take another database"
)
_ADVICE: Final = {
    "42501": "let the owner of the database grant it: see 'Keep and check the record'",
    "42P01": _TABLES,
    "42703": _TABLES,
    "3F000": _TABLES,
}
_FILE: Final = "let the server's user read and write the file and its folder"
_SQLITE_ADVICE: Final = {
    sqlite3.SQLITE_CANTOPEN: _FILE,
    sqlite3.SQLITE_PERM: _FILE,
    sqlite3.SQLITE_AUTH: _FILE,
    sqlite3.SQLITE_READONLY: _FILE,
    sqlite3.SQLITE_NOTADB: "restore a backup, or name another file",
    sqlite3.SQLITE_CORRUPT: "restore a backup",
}
# SQLite has one code for all of these.
_NO_TABLES: Final = ("no such table", "no such column", "no such index")
_ADD_ONLY: Final = ("audit", "audit_chain", "audit_positions")
_PROMISES: Final = "fsync, synchronous_commit, full_page_writes"


def promises(engines: Engines) -> dict[str, str]:
    """How a new session of ours on Postgres keeps commits, by the names of the settings."""
    names = _PROMISES.split(", ")
    query = ", ".join(f"current_setting('{name}') AS {name}" for name in names)
    with engines.lone.connect() as connection:
        row = connection.exec_driver_sql(f"SELECT {query}").one()  # names of ours
    return dict(row._mapping)  # noqa: SLF001 - the library's public name


def leases(tx: Transaction) -> list[HeldLease]:
    """Every lease there ever was."""
    rows = tx.tables.leases
    query = sa.select(rows.c.name, rows.c.holder, rows.c.until).order_by(rows.c.name)
    return [HeldLease(*row) for row in tx.connection.execute(query)]


def said(error: BaseException) -> tuple[str, str | None] | None:
    """What the database said, and what to do about it if that is known; None if it was not it."""
    if not isinstance(error, sa.exc.DBAPIError):
        return None
    # The driver's own words, without the statement.
    primary = getattr(getattr(error.orig, "diag", None), "message_primary", None)
    words = primary or " ".join(str(error.orig).split())
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is None:
        return words, _ADVICE.get(getattr(error.orig, "sqlstate", None) or "")
    return words, _TABLES if words.startswith(_NO_TABLES) else _SQLITE_ADVICE.get(code & 0xFF)


def lacking(engines: Engines) -> list[str]:
    """Tables and sequences on Postgres that the role of this server has too few rights on."""
    if engines.dialect != "postgresql":
        return []
    change = "AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')"
    query = f"""
        SELECT n.nspname || '.' || c.relname FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname IN ('manent', 'dbos')
        WHERE CASE c.relkind WHEN 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE')
        WHEN 'r' THEN NOT (has_table_privilege(c.oid, 'SELECT')
            AND has_table_privilege(c.oid, 'INSERT')
            AND (c.relname = ANY(%s) OR (true {change})))
        ELSE false END ORDER BY 1
    """  # noqa: S608 - a text of ours
    with engines.lone.connect() as connection:
        return list(connection.exec_driver_sql(query, (list(_ADD_ONLY),)).scalars())
