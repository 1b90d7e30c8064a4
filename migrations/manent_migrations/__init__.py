"""The history of the tables: one revision after the other, frozen once released."""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
VERSION_TABLE: Final = "alembic_version"
