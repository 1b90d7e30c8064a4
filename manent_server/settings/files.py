"""manent.yml and the files it includes, joined to one tree."""

import glob
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from manent_server.settings import document
from manent_server.settings.expand import expand
from manent_server.settings.findings import Findings
from manent_server.settings.node import Entry, Listing, Node, Place, Scalar, Table

_MOST_FILES = 1000
_MOST_BYTES = 4 * document.MAX_BYTES
# Deeper than this two files may not share a map: each name is written in one place.
_SHARED_DEPTH = 1
_SHARED_SECTIONS = {("plugins", "external")}


@dataclass(frozen=True)
class Files:
    """What was read: `root` is None when any file could not be."""

    root: Table | None
    paths: tuple[Path, ...]
    modified_at: datetime


def read(path: Path, findings: Findings, *, environ: Mapping[str, str]) -> Files:
    """Read a configuration with everything it includes."""
    reader = _Reader(findings)
    main = reader.table(path)
    if main is None:
        return Files(None, (path,), reader.modified_at)
    root: Table | None = _without_extensions(main)
    for file in _included(main, path, findings, environ):
        table = reader.table(file)
        if table is None:
            root = None
        elif root is not None:
            root = _joined(root, _part(table, findings), findings)
    return Files(root, tuple(reader.paths), reader.modified_at)


class _Reader:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._left = _MOST_BYTES
        self.paths: list[Path] = []
        self.modified_at = datetime.fromtimestamp(0, UTC)

    def table(self, path: Path) -> Table | None:
        self.paths.append(path)
        place = Place(str(path), 0)
        try:
            with path.open("rb") as file:
                data = file.read(document.MAX_BYTES + 1)
            modified_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        except (OSError, ValueError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "it has no usable name"
            self._findings.add(place, (), f"cannot be read: {reason}")
            return None
        self.modified_at = max(self.modified_at, modified_at)
        self._left -= len(data)
        if self._left < 0:
            self._findings.add(place, (), f"all files together are larger than {_MOST_BYTES} bytes")
            return None
        return document.parse(data, file=str(path), findings=self._findings)


def _included(
    main: Table, path: Path, findings: Findings, environ: Mapping[str, str]
) -> list[Path]:
    """The files the patterns name, each once, pattern by pattern in the order of names."""
    found: dict[Path, None] = {}
    patterns = main.get("include")
    for item in patterns.items if isinstance(patterns, Listing) else ():
        pattern = _pattern(item, environ)
        files = [path.parent / name for name in sorted(_matching(pattern, path.parent))]
        if pattern and not files:
            findings.refuse(item, "matches no file")
        found.update(dict.fromkeys(file for file in files if file != path))
    if len(found) > _MOST_FILES:
        findings.add(main.place, ("include",), f"names more than {_MOST_FILES} files")
        return []
    return list(found)


def _pattern(item: Node, environ: Mapping[str, str]) -> str:
    """The pattern, or nothing where the type of the key will say what is wrong."""
    if not isinstance(item, Scalar) or item.kind != "text":
        return ""
    try:
        return expand(item.text, environ)
    except ValueError:
        return ""


def _matching(pattern: str, folder: Path) -> list[str]:
    # Path.glob takes no absolute pattern.
    names = glob.glob(pattern, root_dir=folder, recursive=True) if pattern else []  # noqa: PTH207
    return [name for name in names if (folder / name).is_file()]


def _without_extensions(table: Table) -> Table:
    kept = {key: entry for key, entry in table.entries.items() if not key.startswith("x-")}
    return replace(table, entries=kept)


def _part(table: Table, findings: Findings) -> Table:
    """An included file: anything but further includes."""
    include = table.entries.get("include")
    if include:
        findings.add(include.place, ("include",), "only the first file can include others")
    rest = {key: entry for key, entry in table.entries.items() if key != "include"}
    return _without_extensions(replace(table, entries=rest))


def _joined(one: Table, other: Table, findings: Findings) -> Table:
    entries = dict(one.entries)
    for key, entry in other.entries.items():
        first = entries.get(key)
        entries[key] = _joined_entry(first, entry, findings) if first else entry
    return replace(one, entries=entries)


def _joined_entry(first: Entry, second: Entry, findings: Findings) -> Entry:
    one, other = first.node, second.node
    is_shared = len(one.path) <= _SHARED_DEPTH or one.path in _SHARED_SECTIONS
    if is_shared and isinstance(one, Table) and isinstance(other, Table):
        return replace(first, node=_joined(one, other, findings))
    at = f"{first.place.file}:{first.place.line}"
    findings.add(second.place, other.path, f"is defined twice; first at {at}")
    return first
