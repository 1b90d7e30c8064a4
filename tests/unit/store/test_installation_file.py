"""The file that remembers how far an installation had come."""

import fcntl
import json
import logging
import os
import threading
from pathlib import Path

import pytest

from manent_server.domain.installation import Known
from manent_server.store.installation_file import Glance, InstallationFile


def test_it_is_never_lowered(tmp_path: Path) -> None:
    """B139: two processes may share the folder."""
    one, other = InstallationFile(tmp_path / "work"), InstallationFile(tmp_path / "work")
    one.note(Known("a", 1, 20))
    other.note(Known("a", 1, 10))
    assert one.known("a") == Known("a", 1, 20)
    other.note(Known("a", 2, 5))
    assert one.known("a") == Known("a", 2, 5)
    text = (tmp_path / "work" / "installation").read_text()
    assert json.loads(text) == {"installation": "a", "epoch": 2, "audit_number": 5}
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["installation"]


def test_one_process_at_a_time_reads_and_writes_it(tmp_path: Path) -> None:
    """Else the one that read first could lower what the other has noted meanwhile."""
    file = InstallationFile(tmp_path)
    file.note(Known("a", 1, 10))
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    waits = threading.Thread(target=file.note, args=(Known("a", 1, 30),))
    waits.start()
    waits.join(0.2)
    assert waits.is_alive()
    os.close(folder)
    waits.join(10)
    assert file.known("a") == Known("a", 1, 30)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "\x00\x00", '{"installation": "../a", "epoch": 1, "audit_number": 2}',
     '{"installation": "a", "epoch": "1", "audit_number": 2}'],
)  # fmt: skip
def test_one_that_cannot_be_read_is_put_aside(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """B139: it counts as missing, loudly."""
    (tmp_path / "installation").write_bytes(text.encode())
    with caplog.at_level(logging.ERROR):
        assert InstallationFile(tmp_path).known("a") is None
    assert "put aside as installation.broken" in caplog.text
    assert (tmp_path / "installation.broken").exists()


def test_a_folder_that_cannot_be_used_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """B139: a read-only folder keeps no process from working."""
    (tmp_path / "work").write_text("a file where the folder should be")
    file = InstallationFile(tmp_path / "work")
    with caplog.at_level(logging.ERROR):
        assert file.known("a") is None
        file.note(Known("a", 1, 1))
    assert file.is_failing
    assert caplog.text.count("cannot be kept") == 1


def test_a_command_reads_it_and_leaves_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """B139: it may be run by another user than the servers, who must be able to write it still."""
    assert Glance(tmp_path / "nowhere").known("a") is None
    assert not (tmp_path / "nowhere").exists()
    file = InstallationFile(tmp_path)
    file.note(Known("a", 1, 20))
    file.note(Known("b", 1, 7))
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    glance = Glance(tmp_path)
    glance.note(Known("b", 9, 9))
    assert glance.known("a") == Known("a", 1, 20)
    assert glance.known("b") == Known("b", 1, 7)
    assert glance.known("c") is None
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    (tmp_path / "installation").unlink()
    (tmp_path / "installation").mkdir()
    assert glance.known("b") is None
    assert "cannot be read here" in caplog.text
