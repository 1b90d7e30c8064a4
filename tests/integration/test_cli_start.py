"""How fast `manent` starts, what it loads for that, and the client as one file."""

import json
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts.build_cli import LARGEST, build
from tests.rig.fake_api import FakeApi, ends
from tests.rig.fake_http import TOKEN
from tests.rig.manent import PROGRAM, Manent

ROUNDS = 12
# What each command may not load; a name stands for everything below it too.
NEVER = {"manent_server", "manent_plugins", "pydantic", "yaml", "rich", "asyncio", "httpx2", "dbos"}
NO_HTTP = NEVER | {"http.client", "ssl", "manent_cli.client"}
NO_TYPER = NO_HTTP | {"typer", "dataclasses", "inspect", "json", "manent_cli.session"}


@pytest.fixture
def api():
    with FakeApi() as api:
        yield api


def loaded(arguments, environ):
    code = (
        "import sys; from manent_cli.main import main; main(sys.argv[1:]);"
        "sys.stdout.write('\\n' + '\\n'.join(sys.modules))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environ, text=True, capture_output=True,
        check=True,
    )  # fmt: skip
    return set(ended.stdout.splitlines())


@pytest.mark.parametrize(
    ("arguments", "forbidden"),
    [
        (["--version"], NO_TYPER),
        (["--help"], NEVER - {"http.client"}),
        (["context", "list"], NEVER),
        (["list"], NEVER),
        (["list", "-o", "yaml"], NEVER),
        (["deploy", "shop", "production", "1.0"], NEVER),
        (["logs", "-f", "0197-d"], NEVER),
    ],
)
def test_a_command_loads_only_what_it_needs(api, tmp_path, arguments, forbidden):
    api.add()
    modules = loaded(arguments, Manent(tmp_path, api).environ)
    names = {name for name in modules for one in forbidden if (name + ".").startswith(one + ".")}
    assert names == set()


def processor_time(command, environ):
    # Not the time on the clock: other tests may run beside this one.
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_start_is_a_small_multiple_of_pythons_own(api, tmp_path):
    for _ in range(5):
        api.add()
    environ = Manent(tmp_path, api).environ
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "version": [str(PROGRAM), "--version"],
        "list": [str(PROGRAM), "list"],
    }
    best = dict.fromkeys(commands, 9.0)
    # Side by side, so that a busy moment of the machine falls on all of them.
    for _ in range(ROUNDS):
        for name, command in commands.items():
            best[name] = min(best[name], processor_time(command, environ))
    assert best["version"] <= 4 * best["python"]
    assert best["list"] <= 10 * best["python"]


@pytest.fixture(scope="module")
def pyz(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist") / "manent.pyz")


def bare(pyz: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the file on a Python that sees nothing but its standard library."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(pyz), *arguments], env={"LANG": "C.UTF-8", **environ},
        cwd=pyz.parent, text=True, capture_output=True, check=False, timeout=30,
    )  # fmt: skip


def test_one_file_deploys_on_a_bare_python(api, tmp_path, pyz):
    access = {"MANENT_URL": api.url, "MANENT_TOKEN": TOKEN, "HOME": str(tmp_path)}
    assert bare(pyz, "--version").stdout == "manent 0.1.0\n"
    good = bare(pyz, "deploy", "shop", "production", "1.10", **access)
    assert (good.returncode, good.stdout) == (0, "0197-deploy-0001\n")
    api.script = ends("ERROR", "rolled_back")
    bad = bare(pyz, "deploy", "shop", "production", "1.11", "-o", "json", **access)
    assert (bad.returncode, json.loads(bad.stdout)["outcome"]) == (3, "rolled_back")
    assert "0197-deploy-0002" in bare(pyz, "list", "-o", "yaml", **access).stdout
    assert bare(pyz, "logs", "-f", "0197-deploy-0001", **access).stdout == "copying\ndone\n"


@pytest.mark.parametrize("command", [(), ("deploy",), ("list",), ("logs",), ("context",)])
def test_one_file_has_the_help_of_every_command(pyz, command):
    ended = bare(pyz, *command, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Usage: " in ended.stdout


def test_one_file_is_small_the_same_each_time_and_has_no_server(pyz, tmp_path):
    assert pyz.stat().st_size <= LARGEST
    assert build(tmp_path / "again.pyz").read_bytes() == pyz.read_bytes()
    with zipfile.ZipFile(pyz) as archive:
        names = archive.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {
        "__main__.py", "manent_cli", "typer", "annotated_doc", "shellingham",
    }  # fmt: skip
    assert any("LICENSE" in name for name in names)


def test_one_file_runs_by_its_own_name(pyz):
    ended = subprocess.run([str(pyz), "--version"], text=True, capture_output=True, check=True)
    assert ended.stdout == "manent 0.1.0\n"
