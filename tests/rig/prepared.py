"""A migrated database with a token in it: made once, then copied, since that is much faster.

The first rig of a test process migrates its database and makes its token by the commands an
operator would use; the later ones start from a copy of the result.
"""

import shutil
from pathlib import Path

import psycopg
from psycopg import sql

_SQLITE = "sqlite:///"
# Where the copy lies (a file, or the address of a database) and the token that stands in it.
_kept: dict[str, tuple[str, str]] = {}


def take(url: str, folder: Path) -> str | None:
    """Fill this new database from the copy; the token, or None when there is no copy yet."""
    kept = _kept.get(_server(url))
    if kept is None:
        return None
    copy, token = kept
    if url.startswith(_SQLITE):
        shutil.copy(copy, _file(url, folder))
    elif not _replace(url, copy):
        return None
    return token


def keep(url: str, folder: Path, token: str) -> None:
    """Remember this database, in which nothing but the token has been made."""
    if url.startswith(_SQLITE):
        copy = _file(url, folder).with_suffix(".prepared")
        with_log = _file(url, folder)
        shutil.copy(with_log, copy)
        _kept[_server(url)] = (str(copy), token)
        return
    name = url.rpartition("/")[2]
    copy_name = f"{name}_prepared"
    _statement(url, "CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", copy_name, name)
    _kept[_server(url)] = (copy_name, token)


def _replace(url: str, copy: str) -> bool:
    name = url.rpartition("/")[2]
    try:
        _statement(url, "DROP DATABASE {}", name)
        _statement(url, "CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, copy)
    except psycopg.errors.InvalidCatalogName:
        # Another server has the port of one that is gone.
        _statement(url, "CREATE DATABASE {} TEMPLATE {}", name, "template0")
        return False
    return True


def _statement(url: str, text: str, *names: str) -> None:
    statement = sql.SQL(text).format(*map(sql.Identifier, names))
    with psycopg.connect(f"{_server(url)}/postgres", autocommit=True) as connection:
        connection.execute(statement)


def _server(url: str) -> str:
    return _SQLITE if url.startswith(_SQLITE) else url.rpartition("/")[0]


def _file(url: str, folder: Path) -> Path:
    return folder / url.removeprefix(_SQLITE)
