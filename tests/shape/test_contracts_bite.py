"""The contracts break where they should: each kind is shown a planted violation."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shape import source

LINT = Path(sys.executable).with_name("lint-imports")

# File, what is added to it, the contract that must break.
PLANTED = {
    "a lower room imports a higher one": (
        "manent_server/store/__init__.py",
        "import manent_server.usecases",
        "Rooms are layered",
    ),
    "rooms on one layer know each other": (
        "manent_server/sources/__init__.py",
        "import manent_server.plugins",
        "Rooms are layered",
    ),
    "a new room has no layer": (
        "manent_server/attic.py",
        "",
        "Rooms are layered",
    ),
    "a route goes round the use cases": (
        "manent_server/api/__init__.py",
        "import manent_server.store",
        "Doors know only use cases",
    ),
    "the core reads a clock": (
        "manent_server/domain/__init__.py",
        "import time",
        "The core does no I/O",
    ),
    "a target looks into the server": (
        "plugins/manent_plugins/__init__.py",
        "import manent_server.settings",
        "Built-in targets see only the SDK",
    ),
    "a target uses another": (
        "plugins/manent_plugins/command/__init__.py",
        "import manent_plugins.release",
        "Targets are strangers to each other",
    ),
    "the client knows the server": (
        "manent_cli/__init__.py",
        "import manent_server.domain",
        "The client and the migrations stand alone",
    ),
    "a library leaves its room": (
        "manent_server/settings/__init__.py",
        "import sqlalchemy",
        "One library, one room: sqlalchemy",
    ),
}


@pytest.fixture
def copy(tmp_path) -> Path:
    for package in source.PRODUCT:
        shutil.copytree(source.ROOT / package, tmp_path / package)
    shutil.copy(source.ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.parametrize("violation", PLANTED)
def test_a_planted_violation_breaks_its_contract(copy, violation):
    name, line, contract = PLANTED[violation]
    path = copy / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{path.read_text() if path.exists() else ''}\n{line}\n")
    roots = os.pathsep.join(str(copy / root) for root in (".", "plugins", "migrations"))
    ended = subprocess.run(
        [LINT, "--no-logo", "--no-cache"],
        cwd=copy, env={"PATH": os.defpath, "PYTHONPATH": roots},
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert ended.returncode != 0
    assert f"{contract} BROKEN" in ended.stdout
