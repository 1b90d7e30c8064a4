"""Build `dist/manent.pyz`: the client as one file that any Python from 3.11 on runs.

The file holds `manent_cli` and the few pure Python packages it imports, nothing of the server.
The same sources give the same bytes.
"""

import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 5 * 1024 * 1024
# What `manent_cli` imports beside the standard library, and what that imports in turn.
PACKAGES = ("typer", "annotated-doc", "shellingham")
# Parts of them that manent never reaches: they draw with `rich`, which is not in the file.
LEFT_OUT = frozenset({"typer/rich_utils.py", "typer/cli.py", "typer/testing.py"})
SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("manent needs Python 3.11 or newer")

from manent_cli.main import main

sys.exit(main())
"""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build(target: Path) -> Path:
    """Write the file and return its path.

    Raises:
        SystemExit: It became larger than it may be.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    contents = {"__main__.py": MAIN.encode(), **dict(_own()), **dict(_others())}
    with target.open("wb") as file:
        file.write(SHEBANG)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name in sorted(contents):
                archive.writestr(_entry(name), contents[name])
    target.chmod(0o755)
    if target.stat().st_size > LARGEST:
        sys.exit(f"{target} has {target.stat().st_size} bytes, more than {LARGEST}")
    return target


def _own() -> Iterator[tuple[str, bytes]]:
    for path in (ROOT / "manent_cli").rglob("*.py"):
        yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def _others() -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        found = distribution(package)
        for name, path in _files(found):
            is_code = name.endswith(".py") and name not in LEFT_OUT
            if is_code or "licen" in name.lower():
                yield name, path.read_bytes()


def _files(found: Distribution) -> Iterator[tuple[str, Path]]:
    for file in found.files or ():
        name = file.as_posix()
        if not name.startswith(".."):
            yield name, Path(str(found.locate_file(file)))


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


if __name__ == "__main__":
    built = build(ROOT / "dist" / "manent.pyz")
    sys.stdout.write(f"{built.relative_to(ROOT)}: {built.stat().st_size / 1024:.0f} KiB\n")
