"""The database URL: no password can move a border."""

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import make_url

from manent_server.settings import database_url
from tests.unit.settings.conftest import Errors, Load

HARD = "pa$USER#w{x}%@/:"
ENVIRON = {"DB_PASSWORD": HARD, "USER": "root"}


def read(text: str, **environ: str) -> str:
    return database_url.read(text, environ={**ENVIRON, **environ}, folder=Path("/etc/manent"))


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://manent:${DB_PASSWORD}@db/manent",
        f"postgresql://manent:{HARD}@db/manent",
        f"postgresql://manent:{quote(HARD, safe='')}@db/manent",
        f"postgresql://manent:{quote(HARD, safe='$')}@db/manent",
        "${URL}",
        "${RAW_URL}",
    ],
)
def test_a_password_arrives_as_it_is(text: str) -> None:
    """B118: by variable, in the file and in a URL kept in a variable."""
    environ = {
        "URL": f"postgresql://manent:{quote(HARD, safe='')}@db/manent",
        "RAW_URL": f"postgresql://manent:{HARD}@db/manent",
    }
    url = make_url(read(text, **environ))
    assert (url.username, url.password) == ("manent", HARD)
    assert (url.host, url.port, url.database, url.query) == ("db", None, "manent", {})


def test_the_file_keeps_the_password_too(load: Load) -> None:
    """B118: through YAML and back."""
    loaded = load(f"database:\n  url: postgresql://manent:{HARD}@db:5432/manent\n")
    assert make_url(loaded.database.url.reveal()).password == HARD
    assert HARD not in repr(loaded)
    assert loaded.database.shown == "postgresql://manent@db:5432/manent"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_any_password_in_a_variable_arrives(password: str) -> None:
    """B118: whatever its characters."""
    url = make_url(read("postgresql://manent:${P}@db:5432/manent?sslmode=disable", P=password))
    assert url.password == password
    assert (url.username, url.host, url.port) == ("manent", "db", 5432)
    assert (url.database, url.query) == ("manent", {"sslmode": "disable"})


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00\n"), min_size=1))
def test_any_password_in_the_file_arrives_or_is_refused(password: str) -> None:
    """B118: never another one; `%41` may be an `A` that was encoded."""
    try:
        found = make_url(read(f"postgresql://manent:{password.replace('$', '$$')}@db/manent"))
    except ValueError:
        return
    assert found.host == "db"
    assert found.password in {password, make_url(f"x://:{quote(password, '%')}@h").password}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("postgresql://${U}:${P}@${H}:${N}/${D}", ("u@/", "p:", "db", 5433, "my/d%b")),
        ("postgresql+psycopg://u%40:p@[::1]:1/x", ("u@", "p", "::1", 1, "x")),
        ("postgresql://db/x", (None, None, "db", None, "x")),
        ("postgresql://db", (None, None, "db", None, None)),
        ("postgresql://u@db/x?application_name=a@b", ("u", None, "db", None, "x")),
        ("postgresql://u:@db/x", ("u", "", "db", None, "x")),
        ("postgresql:///x?host=/run/postgresql", (None, None, None, None, "x")),
    ],
)
def test_every_component_is_expanded_alone(text: str, values: tuple[object, ...]) -> None:
    environ = {"U": "u@/", "P": "p:", "H": "db", "N": "5433", "D": "my/d%b"}
    url = make_url(read(text, **environ))
    assert (url.username, url.password, url.host, url.port, url.database) == values


def test_query_values_are_kept() -> None:
    url = make_url(read("postgresql:///x?host=/run/pg&options=${O}&a=%41+b", O="-c x=1&y"))
    assert url.query == {"host": "/run/pg", "options": "-c x=1&y", "a": "A b"}


@pytest.mark.parametrize(
    ("text", "database"),
    [
        ("sqlite:///manent.db", "/etc/manent/manent.db"),
        ("sqlite:///data/manent.db", "/etc/manent/data/manent.db"),
        ("sqlite:////var/lib/manent.db", "/var/lib/manent.db"),
        ("sqlite:///${DIR}/a.db", "/srv/a b%41/a.db"),
        ("sqlite:///my%20data.db", "/etc/manent/my data.db"),
    ],
)
def test_a_sqlite_file_lies_beside_manent_yml(text: str, database: str) -> None:
    assert make_url(read(text, DIR="/srv/a b%41")).database == database


@pytest.mark.parametrize(
    "text",
    [
        "",
        "manent.db",
        "mysql://a:hunter2@b/c",
        "postgres://a:hunter2@b/c",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "postgresql://",
        "postgresql:///x",
        "postgresql://a:hunter2@b:port/c",
        "postgresql://a:hunter2@b:99999/c",
        "postgresql://a:hunter2@b c/d",
        "postgresql://a:hunter2%41/@b/c",
        "postgresql://a:${MISSING}@b/c",
        "postgresql://a:\ue000hunter2@b/c",
        "postgresql://a:hunter2@${BAD}/c",
        "${BAD}",
        "postgresql://a:" + "${P}" * 200 + "@b/c",
    ],
)
def test_what_is_no_url_is_refused_without_being_shown(text: str, errors: Errors) -> None:
    """B108: a wrong database URL with a password is not printed."""
    environ = {"BAD": "hunter2/x@", "P": "hunter2"}
    [found] = errors("database:\n  url: '" + text + "'", environ)
    assert (found["line"], found["path"]) == (2, "database.url")
    assert "hunter2" not in str(found)


def test_the_url_may_be_shown_without_its_password() -> None:
    for password in (HARD, "a@b", ""):
        url = read("postgresql://u:${P}@db/x?a=b@c", P=password)
        assert database_url.without_password(url) == "postgresql://u@db/x?a=b%40c"
    assert database_url.without_password(read("postgresql://u@db/x")) == "postgresql://u@db/x"
