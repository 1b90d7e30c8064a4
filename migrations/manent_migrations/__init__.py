"""The history of the tables: one revision after the other, frozen once released."""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
VERSION_TABLE: Final = "alembic_version"


def revisions() -> list[str]:
    """Every revision, oldest first, as the names of their files (`rNNNN_what.py`) tell."""
    return sorted(file.name[1:5] for file in (FOLDER / "versions").glob("r[0-9]*.py"))
