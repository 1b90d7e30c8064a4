"""`manent-server audit verify`: reads the record and says whether it is whole."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from manent_server.bootstrap import house
from manent_server.domain.audit import Known
from manent_server.domain.errors import ConfigurationError
from manent_server.engine.migration import library
from manent_server.observability.seal import Trusted
from manent_server.store import migrate
from manent_server.usecases import verify as verifying

_KNOWN: Final = re.compile(r"(\d{1,18}):([0-9a-f]{64})")


def verify(path: Path, environ: Mapping[str, str], *, known: str | None) -> bool:
    """Print what was found; whether everything is as it was chained."""
    place = _place(known) if known is not None else None
    opened = house.open_house(path, environ)
    if not migrate.is_current(opened.engines, library=library()):
        raise ConfigurationError(
            "the database is not of this release", next="run manent-server migrate first"
        )
    audit = opened.settings.audit
    mine = [audit.key] if audit.key is not None else []
    trusted = Trusted([*mine, *audit.trusted_keys])
    signed = trusted.good if trusted else None
    found = verifying.verify(opened.store, known=place, signed=signed)
    shown = {"verified": found.broken is None, **asdict(found)}
    sys.stdout.write(json.dumps(shown, indent=2) + "\n")
    return found.broken is None


def _place(text: str) -> Known:
    found = _KNOWN.fullmatch(text.strip().lower())
    if found is None:
        raise ConfigurationError(
            f"--known {text[:80]}: this is no place of the chain",
            next="give it as NUMBER:HASH, as audit verify or a line of the audit file names it",
        )
    return Known(int(found[1]), found[2])
