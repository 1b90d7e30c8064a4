"""`manent-server doctor` where no server could run; beside one it is tried in test_insert_only."""

from pathlib import Path

import pytest

from tests.rig.serve import BIN, path_environment, run

pytestmark = pytest.mark.e2e


def test_without_a_good_configuration_nothing_is_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "manent.yml"
    file.write_text("worker: {concurency: 3}\n")
    command = [str(BIN / "manent-server"), "doctor", "--config", str(file)]
    done = run(command, cwd=tmp_path, environ=path_environment(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "worker.concurency" in done.stderr
