"""What commands of `manent-server` say where the machine or the database lets them down."""

import errno
import io
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from manent_server.cli import main
from manent_server.settings.starter import starter
from tests.rig.ports import free_port

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command in a folder of its own: the exit code, and what it said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("manent_server.cli.errands._PATIENCE", timedelta(milliseconds=10))

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["manent-server", *arguments])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        return code, capsys.readouterr().err

    return run


def write(folder: Path, url: str) -> None:
    text = starter(folder).replace("sqlite:///manent.db", url)
    assert url in text
    (folder / "manent.yml").write_text(text)


NEED_THE_DATABASE = [
    ("token", "list"),
    ("migrate", "--wait", "10ms"),
    ("audit", "verify"),
    ("admin", "executors", "--local"),
]


@pytest.mark.parametrize("command", NEED_THE_DATABASE, ids=" ".join)
def test_a_database_that_is_away_is_no_broken_record(run: Run, tmp_path: Path, command):
    """`audit verify` ends with 1 for a record that was changed, and for nothing else."""
    write(tmp_path, f"postgresql://x:y@127.0.0.1:{free_port()}/manent")
    code, said = run(*command)
    assert code == 75, said
    assert "manent-server: the database does not answer" in said
    assert "next: " in said


@pytest.mark.parametrize("command", NEED_THE_DATABASE, ids=" ".join)
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda file: file.mkdir(), "unable to open database file"),
        (lambda file: file.write_text("no database at all, but text" * 99), "not a database"),
    ],
    ids=["folder", "text"],
)
def test_a_database_that_cannot_be_used_is_named(run: Run, tmp_path: Path, command, spoil, words):
    write(tmp_path, "sqlite:///manent.db")
    spoil(tmp_path / "manent.db")
    code, said = run(*command)
    assert code == 2, said
    assert f"manent-server: database.url: {words}" in said.replace("file is not", "not")
    assert "next: " in said


def test_a_database_without_tables_wants_them_made(run: Run, tmp_path: Path):
    """Of an operator who comes first; what the library says of it helps nobody."""
    write(tmp_path, "sqlite:///manent.db")
    code, said = run("admin", "executors", "--local")
    assert (code, "Traceback" in said) == (2, False)
    assert "database.url: no such table" in said
    assert "manent-server migrate" in said


def test_who_has_read_enough_hears_of_no_broken_record(run: Run, monkeypatch):
    """`audit verify | head`: 1 is a word of that command."""

    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Gone())
    assert run("--version") == (141, "")


def test_a_first_file_that_came_to_nothing_is_not_in_the_way(run: Run, tmp_path: Path):
    (tmp_path / "manent.db").mkdir()
    code, said = run("init")
    assert (code, (tmp_path / "manent.yml").exists()) == (2, False), said
    (tmp_path / "manent.db").rmdir()
    assert run("init")[0] == 0
    code, said = run("init", "second")
    assert "`local-2` is the current context now; back: manent context use local" in said


def test_a_folder_that_cannot_be_made_is_named(run: Run, tmp_path: Path):
    (tmp_path / "file").write_text("")
    code, said = run("init", "file/below")
    assert code == 2
    assert "file/below: Not a directory" in said
    assert "next: " in said


def test_a_worker_without_a_folder_does_not_start(run: Run, tmp_path: Path):
    write(tmp_path, "sqlite:///manent.db")
    (tmp_path / "work").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        ended: list[int] = []
        patch.setattr("os._exit", ended.append)
        _, said = run("serve")
    assert ended == [2], said
    assert f"worker.workdir: {tmp_path / 'work'} is no folder" in said
    assert "next: " in said


@pytest.mark.parametrize("command", ["check", "serve", "doctor", "migrate"])
def test_without_a_file_the_way_to_one_is_named(run: Run, command: str):
    code, said = run(command)
    assert code == 2
    assert said.count("there is no manent.yml") == 1
    assert "manent-server init" in said


def test_a_misspelt_command_line_says_where_to_look(run: Run):
    assert run("token", "create", "x") == (
        2, "manent-server: Missing option '--role'.\nnext: see manent-server token create --help\n"
    )  # fmt: skip
    code, said = run("chek")
    assert (code, "Did you mean 'check'?" in said) == (2, True)
    assert said.endswith("next: see manent-server --help\n")


def test_a_token_for_places_there_are_none_of_is_warned_of(run: Run, tmp_path: Path):
    write(tmp_path, "sqlite:///manent.db")
    made = ["token", "create", "ci", "--role", "deployer", "--environments", "stagin,prod*"]
    code, said = run(*made)
    assert code == 0
    assert "warning: --environments stagin names none of manent.yml\n" in said
    assert "prod*" not in said
    code, said = run("token", "revoke", "0123456789abcdef")
    assert code == 2
    assert "there is no token or session '0123456789abcdef'" in said
    assert "next: manent-server token list" in said


def test_one_mistake_is_said_once(run: Run, tmp_path: Path):
    (tmp_path / "manent.yml").write_text("servr: {}\n")
    code, said = run("check")
    assert (code, said.count("servr")) == (2, 2), said
