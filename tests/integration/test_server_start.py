"""What a command of `manent-server` loads before it does anything: the time of its start."""

import subprocess
import sys

HEAVY = {"alembic", "dbos", "fastapi", "httpx2", "rich", "uvicorn"}


def loaded(module: str) -> set[str]:
    """The top-level packages in memory once a fresh Python has imported a module."""
    told = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {name.partition(".")[0] for name in told.stdout.split()}


def test_a_command_that_ends_by_itself_loads_neither_engine_nor_api() -> None:
    assert not HEAVY & loaded("manent_server.cli.errands")


def test_serving_loads_no_migrations_and_nothing_for_terminals() -> None:
    assert not {"alembic", "httpx2", "rich"} & loaded("manent_server.cli.serving")
