"""`manent-server doctor` beside a server that runs, and where none could."""

import json
from pathlib import Path

import pytest

from tests.rig.postgres import Postgres
from tests.rig.serve import BIN, Rig, path_environment, run

pytestmark = pytest.mark.e2e


@pytest.mark.postgres
def test_an_installation_that_works(tmp_path: Path, postgres_server: Postgres) -> None:
    url = postgres_server.create_database()
    with Rig(tmp_path, url) as rig:
        done = rig.server_cli(["doctor", "-o", "json"], check=False)
    found = json.loads(done.stdout)
    levels = {one["check"]: one["level"] for one in found["checks"]}
    # The database servers of tests do not keep what they acknowledge: the one thing that is wrong.
    assert {name for name, level in levels.items() if level != "ok"} == {"durability"}, found
    assert (done.returncode, found["good"], found["left_out"]) == (1, False, [])
    assert len(levels) == 18


def test_without_a_good_configuration_nothing_is_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "manent.yml"
    file.write_text("worker: {concurency: 3}\n")
    command = [str(BIN / "manent-server"), "doctor", "--config", str(file)]
    done = run(command, cwd=tmp_path, environ=path_environment(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "worker.concurency" in done.stderr
