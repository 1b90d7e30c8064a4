"""Another build of the package: the same code with a comment more, under another version."""

import shutil
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PACKAGES = (
    "manent_server",
    "manent_cli",
    "plugins/manent_plugins",
    "migrations/manent_migrations",
)


def copy(folder: Path, version: str) -> dict[str, str]:
    """Lay a build out as an installation would; the variables that make a process run it."""
    for package in _PACKAGES:
        source = ROOT / package
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, folder / source.name, ignore=ignored)
    workflow = folder / "manent_server" / "engine" / "journey.py"
    workflow.write_text(workflow.read_text() + "\n# A comment more than the build before.\n")
    info = folder / f"manent-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.3\nName: manent\nVersion: {version}\n")
    points = metadata.distribution("manent").read_text("entry_points.txt") or ""
    (info / "entry_points.txt").write_text(points)
    return {"PYTHONPATH": str(folder)}
