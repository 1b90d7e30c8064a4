"""The wheel, installed into an environment of its own, works in an empty directory."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.rig.serve import Finished, run

ROOT = Path(__file__).parents[2]
PACKAGES = ("manent_server", "manent_cli", "manent_plugins", "manent_migrations")

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    built = [*pip, "wheel", ROOT, "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    subprocess.run(built, check=True, timeout=100, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The bin folder of an environment with the wheel, its dependencies lent by this one."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    install = [*pip, "install", "--quiet", "--no-deps", wheel]
    subprocess.run(install, check=True, timeout=100, capture_output=True)
    # A path named in a .pth file is not searched for .pth files itself: the editable install of
    # the project stays out of sight.
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


@pytest.fixture
def call(installed, tmp_path):
    def run_installed(program: str, *arguments: str) -> Finished:
        environ = {"PATH": str(installed), "HOME": str(tmp_path)}
        return run([str(installed / program), *arguments], cwd=tmp_path, environ=environ)

    return run_installed


@pytest.mark.parametrize("program", ["manent", "manent-server"])
def test_the_programs_say_their_version(call, program):
    said = call(program, "--version")
    assert (said.returncode, "0.1.0" in said.stdout) == (0, True), said.stderr


def test_everything_comes_from_the_wheel(call, installed):
    script = "import {0}; print({0}.__file__)"
    for package in PACKAGES:
        found = call("python", "-c", script.format(package))
        assert found.stdout.startswith(str(installed.parent)), found


def test_an_empty_directory_becomes_a_server_that_knows_its_database(call):
    assert call("manent-server", "init").returncode == 0
    assert call("manent-server", "check").returncode == 0
    migrated = call("manent-server", "migrate")
    assert migrated.returncode == 0, migrated.stderr


def test_the_wheel_holds_every_module_and_the_licence(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    folders = {"plugins/manent_plugins": "plugins/", "migrations/manent_migrations": "migrations/"}
    for package in ("manent_server", "manent_cli", *folders):
        for path in (ROOT / package).rglob("*.py"):
            name = str(path.relative_to(ROOT)).removeprefix(folders.get(package, ""))
            assert name in inside
    assert any(name.endswith("licenses/LICENSE") for name in inside)
    assert not [name for name in inside if name.startswith(("tests", "docs"))]
