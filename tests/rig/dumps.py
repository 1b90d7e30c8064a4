"""Dumps of a database and their restoring, by the programs people use for it."""

import shutil
import subprocess
from pathlib import Path

from tests.rig.postgres import binaries


def dump(url: str, to: Path) -> None:
    """Dump a database while it is served: `pg_dump`, or `.backup` of `sqlite3`."""
    if url.startswith("sqlite"):
        _run("sqlite3", str(_file(url)), f".backup '{to}'")
    else:
        _run(str(binaries() / "pg_dump"), "--format=custom", f"--file={to}", url)


def restore(url: str, dumped: Path) -> None:
    """Put a dump in the place of a database."""
    if url.startswith("sqlite"):
        file = _file(url)
        for beside in ("-wal", "-shm"):
            file.with_name(file.name + beside).unlink(missing_ok=True)
        shutil.copyfile(dumped, file)
        return
    # In one transaction: a server that is still at work never sees half of it.
    how = ("--clean", "--if-exists", "--single-transaction", f"--dbname={url}")
    _run(str(binaries() / "pg_restore"), *how, str(dumped))


def _file(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)
