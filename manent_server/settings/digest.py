"""One number for what a configuration means, to see whether two processes have the same."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from manent_server.domain import duration
from manent_server.domain.secret import Secret
from manent_server.settings.values import Database, Settings

# Where the files lie and who reads them, which is no part of what they mean.
NOT_COMPARED = (
    "executor_id",
    "path",
    "files",
    "modified_at",
    "digest",
    "inheriting",
    "origins",
)


def digest(settings: Settings) -> str:
    """sha256 of the values in canonical JSON; the database counts as shown, paths as written."""
    folder = settings.path.absolute().parent
    values = {
        item.name: _plain(getattr(settings, item.name), folder)
        for item in fields(settings)
        if item.name not in NOT_COMPARED
    }
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _plain(value: Any, folder: Path) -> Any:
    if isinstance(value, Database):
        return {"url": value.shown, "pool": value.pool}
    if is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name), folder) for item in fields(value)}
    if isinstance(value, Mapping):
        # Targets and applications have an order, which is part of the meaning.
        return [[key, _plain(item, folder)] for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(item, folder) for item in value]
    return _leaf(value, folder)


def _leaf(value: Any, folder: Path) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, timedelta):
        return duration.show(value)
    if isinstance(value, Path):
        return str(value.relative_to(folder) if value.is_relative_to(folder) else value)
    return value
