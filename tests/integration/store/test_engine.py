"""Engines: addresses, limits of every session, settings of the file."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
import sqlalchemy as sa

from manent_server.domain.errors import ConfigurationError
from manent_server.store.engine import Engines, connect

MINUTE = timedelta(minutes=1)


def engines(url: str, folder: Path = Path("/")) -> Engines:
    return connect(url, pool=2, stale_after=MINUTE, folder=folder)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_spelling_of_postgres_means_psycopg_3(scheme: str) -> None:
    made = engines(f"{scheme}://manent@db.invalid/manent")
    assert made.dialect == "postgresql"
    assert made.ours.driver == made.dbos.driver == "psycopg"


def test_building_engines_opens_no_connection(tmp_path: Path) -> None:
    engines("postgresql://manent@db.invalid/manent")
    engines("sqlite:///manent.db", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_new_sqlite_file_is_its_owners_alone(tmp_path: Path) -> None:
    made = engines("sqlite:///manent.db", tmp_path)
    with made.ours.begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (n INTEGER)"))
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600}, modes


def test_a_percent_encoded_password_arrives_as_it_is() -> None:
    """B118: the password is kept byte for byte, and never shown."""
    password = "pa$USER#w{x}%@/:"  # noqa: S105 - the awkward password of the case
    made = engines(f"postgresql://manent:{quote(password, safe='')}@db.invalid/manent")
    assert made.ours.url.password == password
    assert made.dbos.url.password == password
    assert made.url == "postgresql+psycopg://manent:***@db.invalid/manent"


def test_a_password_in_the_query_is_not_shown() -> None:
    made = engines("postgresql://db.invalid/manent?user=manent&password=hunter2&sslpassword=key2")
    assert "hunter2" not in made.url
    assert "key2" not in made.url


@pytest.mark.parametrize(
    "url",
    [
        "mysql://db/manent",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?uri=true",
        "nonsense",
    ],
)
def test_an_address_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        engines(url)
    assert "database.url" in caught.value.detail
    assert caught.value.next


def test_an_unreadable_address_is_refused_without_showing_it() -> None:
    """B118: the password of a broken address stands in no message."""
    with pytest.raises(ConfigurationError) as caught:
        engines("postgresql://manent:hunter2@db:port/manent")
    assert "hunter2" not in f"{caught.value.detail} {caught.value.next}"


def test_a_relative_file_lies_in_the_folder_of_the_configuration(tmp_path: Path) -> None:
    made = engines("sqlite:///manent.db", tmp_path)
    assert made.file == tmp_path / "manent.db"
    assert engines(f"sqlite:///{tmp_path}/other.db").file == tmp_path / "other.db"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        engines("sqlite:///nowhere/manent.db", tmp_path)


def test_sqlite_keeps_what_it_acknowledged(sqlite_engines: Engines) -> None:
    for engine in (sqlite_engines.ours, sqlite_engines.dbos, sqlite_engines.lone):
        with engine.connect() as connection:
            found = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }
        assert found == {
            "journal_mode": "wal",
            "synchronous": 2,
            "foreign_keys": 1,
            "busy_timeout": 30_000,
        }


@pytest.mark.postgres
def test_no_session_holds_a_lock_for_long(postgres_url: str) -> None:
    made = connect(postgres_url, pool=2, stale_after=MINUTE)
    for engine in (made.ours, made.dbos):
        with engine.connect() as connection:
            shown = _settings(connection)
        assert shown["idle_in_transaction_session_timeout"] == "5s"
        assert shown["lock_timeout"] == "5s"
        assert shown["statement_timeout"] == "30s"
        assert shown["TimeZone"] == "UTC"
        assert shown["application_name"] == "manent"
        assert shown["default_transaction_isolation"] == "read committed"
        assert int(shown["tcp_user_timeout"].removesuffix("ms").removesuffix("s")) in (24, 24_000)
        assert shown["search_path"] == '"$user", public'
        engine.dispose()


@pytest.mark.postgres
def test_the_limits_survive_a_rolled_back_first_transaction(postgres_url: str) -> None:
    made = connect(postgres_url, pool=1, stale_after=MINUTE)
    with made.ours.connect() as connection:
        connection.rollback()
    with made.ours.connect() as connection:
        assert _settings(connection)["lock_timeout"] == "5s"
    made.ours.dispose()


@pytest.mark.postgres
def test_a_statement_of_a_lone_connection_may_take_long(postgres_url: str) -> None:
    made = connect(postgres_url, pool=1, stale_after=MINUTE)
    with made.lone.connect() as connection:
        shown = _settings(connection)
    assert shown["statement_timeout"] == "0"
    assert shown["lock_timeout"] == "3s"  # B130: whoever is told to end waits no longer
    assert shown["idle_in_transaction_session_timeout"] == "5s"


@pytest.mark.postgres
def test_columns_have_the_names_and_types_the_library_gives_them(
    postgres_engines: Engines,
) -> None:
    """Built without what nobody asks; whatever gives no rows has none."""
    query = "SELECT 1 AS one, 'x'::text AS \"größe\", now() AS at, '[1]'::jsonb AS body"
    with postgres_engines.ours.connect() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        mine, theirs = raw.cursor(), psycopg.Cursor(raw)
        assert _columns(mine.execute(query)) == _columns(theirs.execute(query))
        for statement in ("SELECT", "SELECT 1 AS none WHERE false", "SET lock_timeout = '1s'"):
            assert _columns(mine.execute(statement)) == _columns(theirs.execute(statement))
        assert connection.exec_driver_sql(query).mappings().one()["größe"] == "x"


def _columns(cursor: psycopg.Cursor[Any]) -> list[tuple[str, int]] | None:
    found = cursor.description
    return None if found is None else [(column[0], column[1]) for column in found]


def _settings(connection: sa.Connection) -> dict[str, str]:
    names = (
        "idle_in_transaction_session_timeout",
        "lock_timeout",
        "statement_timeout",
        "TimeZone",
        "application_name",
        "default_transaction_isolation",
        "tcp_user_timeout",
        "search_path",
    )
    return {name: str(connection.exec_driver_sql(f"SHOW {name}").scalar_one()) for name in names}
