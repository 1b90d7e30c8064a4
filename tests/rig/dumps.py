"""Dumps of a database and their restoring, by the commands of the pages about it."""

import json
import os
import re
import subprocess
from collections.abc import Mapping

from tests.docs.pages import DOCS
from tests.rig.postgres import binaries
from tests.rig.serve import BIN, Rig

_TRIES = 10


def commands(page: str, title: str) -> str:
    """A block of a page, by its title."""
    text = (DOCS / "how-to" / page).read_text()
    found = re.search(rf'```sh title="{title}"\n(.*?)^```', text, re.DOTALL | re.MULTILINE)
    assert found, (page, title)
    return found[1]


def run(rig: Rig, text: str, **environ: str) -> str:
    """Run commands of a page beside manent.yml, signed in as an operator.

    Args:
        rig: Whose server and database it is about.
        text: The commands.
        environ: Further variables.
    """
    path = os.pathsep.join((str(BIN), str(binaries()), "/usr/bin", "/bin"))
    given: Mapping[str, str] = {
        "PATH": path,
        "HOME": str(rig.folder),
        "LANG": "C.UTF-8",
        "DATABASE_URL": rig.database_url,
        "MANENT_URL": rig.url,
        "MANENT_TOKEN": rig.token,
        **environ,
    }
    ended = subprocess.run(
        ["/bin/sh", "-e", "-c", text], cwd=rig.folder, env=given, text=True,
        capture_output=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return f"exit {ended.returncode}: {ended.stderr}" if ended.returncode else ""


def is_sqlite(rig: Rig) -> bool:
    """Whether its database is a file."""
    return rig.database_url.startswith("sqlite")


def noted(rig: Rig) -> int:
    """The highest number of the record that is kept outside of the database."""
    number: int = json.loads((rig.folder / "work-w0" / "installation").read_text())["audit_number"]
    return number


def dump(rig: Rig) -> None:
    """Dump the database while it is served."""
    said = run(rig, commands("back-up.md", "backup" if is_sqlite(rig) else "dump"))
    assert not said, said


def restore(rig: Rig) -> None:
    """Put the dump in the place of the database."""
    text = commands("restore.md", "put back" if is_sqlite(rig) else "restore")
    said = run(rig, text)
    tries = 1
    # A server that is still at work locks tables in another order than the restore.
    while "deadlock detected" in said and tries < _TRIES:
        said = run(rig, text)
        tries += 1
    assert not said, said
