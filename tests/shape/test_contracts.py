"""One library, one room: every third-party import has its home, and a contract that keeps it.

import-linter cannot protect a library nobody imports yet, so contracts come with the first
import. This test makes sure none is forgotten and none stands for nothing.
"""

import sys
import tomllib

import pytest

from tests.shape import source

OURS = {"manent_server", "manent_cli", "manent_plugins", "manent_migrations"}
CLI_ROOMS = ["manent_cli", "manent_server.cli"]

# Library -> the rooms that may import it. None: any room above the core may.
HOMES: dict[str, list[str] | None] = {
    "alembic": ["manent_migrations", "manent_server.store"],
    "anyio": ["manent_server.api", "manent_server.web"],
    "cryptography": ["manent_server.observability"],
    "cronsim": ["manent_server.domain"],
    "dateutil": ["manent_server.domain"],
    "dbos": ["manent_server.engine"],
    "durationpy": ["manent_server.settings"],
    "fastapi": ["manent_server.api", "manent_server.web"],
    "h11": ["manent_server.api"],
    "httpcore2": ["manent_server.observability"],
    "httpx2": ["manent_cli", "manent_server.observability", "manent_server.sources"],
    "joserfc": ["manent_server.sources"],
    "opentelemetry": ["manent_server.observability"],
    "pluggy": ["manent_server.plugins", "manent_server.sdk"],
    "prometheus_client": ["manent_server.observability"],
    "psycopg": ["manent_server.store", "manent_server.engine"],
    "pydantic": None,
    "rich": ["manent_cli"],
    "sqlalchemy": ["manent_migrations", "manent_server.engine", "manent_server.store"],
    "starlette": ["manent_server.api", "manent_server.web"],
    "typer": CLI_ROOMS,
    "click": CLI_ROOMS,
    "uvicorn": None,
    "yaml": ["manent_cli", "manent_server.settings"],
}


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """Third-party library -> modules of ours that import it."""
    found: dict[str, set[str]] = {}
    for file in source.files():
        for library in file.imports() - OURS - set(sys.stdlib_module_names):
            found.setdefault(library, set()).add(file.module())
    return found


@pytest.fixture(scope="module")
def protected() -> dict[str, list[str]]:
    """Library -> allowed importers, as pyproject.toml says."""
    project = tomllib.loads((source.ROOT / "pyproject.toml").read_text())
    return {
        library: contract["allowed_importers"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["type"] == "protected"
        for library in contract["protected_modules"]
    }


def test_every_imported_library_has_a_home(imported):
    assert not sorted(set(imported) - set(HOMES))


def test_every_imported_library_is_kept_at_home_by_a_contract(imported, protected):
    wanted = {library: HOMES[library] for library in imported if HOMES.get(library)}
    rooms = {file.module() for file in source.files()}
    # A room that does not exist yet cannot be named in a contract.
    homes = {library: [h for h in home or [] if h in rooms] for library, home in wanted.items()}
    assert {library: sorted(home) for library, home in homes.items()} == {
        library: sorted(importers) for library, importers in protected.items()
    }
