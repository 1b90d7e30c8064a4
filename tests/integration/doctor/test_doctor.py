"""`doctor` on this machine: folders, disks, hook processes, and the command itself."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from manent_server import cli
from manent_server import settings as configuration
from manent_server.bootstrap import doctor, house, machine
from manent_server.bootstrap.doctor import Check
from manent_server.cli import doctoring
from manent_server.domain import checkup
from manent_server.domain.checkup import Finding, Level
from manent_server.domain.errors import ConfigurationError, Unavailable
from manent_server.observability.redaction import Redactor
from manent_server.plugins.nursery import NoGuard
from manent_server.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "manent.yml"
    path.write_text("{}\n")
    found = configuration.load(path, environ={}, plugins=[])
    worker = replace(found.worker, workdir=tmp_path / "work" / "of" / "w1")
    audit = replace(found.audit, file=tmp_path / "audit.jsonl")
    return replace(found, worker=worker, audit=audit)


def test_folders(settings: Settings, tmp_path: Path) -> None:
    database = tmp_path / "manent.db"
    assert machine.folders(settings, database).level == Level.OK
    (tmp_path / "work").touch()
    found = machine.folders(settings, database)
    assert (found.level, "worker.workdir" in found.words) == (Level.FAIL, True)
    (tmp_path / "work").unlink()
    (tmp_path / "audit.jsonl").mkdir()
    found = machine.folders(settings, database)
    assert (found.level, "audit.file" in found.words) == (Level.FAIL, True)
    assert not (tmp_path / "work").exists()
    (tmp_path / "audit.jsonl").rmdir()
    database.mkdir()
    found = machine.folders(settings, database)
    assert (found.level, "database.url" in found.words) == (Level.FAIL, True)


def test_a_folder_of_another_user(settings: Settings) -> None:
    # Nobody, root included, may write there.
    worker = replace(settings.worker, workdir=Path("/proc/1/work"))
    found = machine.folders(replace(settings, worker=worker), None)
    assert (found.level, "worker.workdir" in found.words) == (Level.FAIL, True)


def test_disks(settings: Settings, tmp_path: Path) -> None:
    asked = []

    def free(folder: Path) -> int:
        asked.append(folder)
        return 0 if len(asked) > 1 else 2**40

    assert machine.disks(settings, tmp_path / "manent.db").level in set(Level)
    assert machine.disks(settings, Path("/var/manent.db"), free).level == Level.FAIL
    assert asked == [Path("/var"), tmp_path] or asked == [tmp_path, Path("/var")]


def test_hook_processes(settings: Settings) -> None:
    assert machine.hooks(settings) == checkup.good("a hook ran under its guard and ended")
    with pytest.raises(NoGuard):
        machine.hooks(settings, python="/bin/false")


def test_what_raises_or_hangs_is_a_finding_and_a_gate_ends_it() -> None:
    never = Event()

    def hang() -> Finding:
        never.wait()
        return checkup.good("never")

    def away() -> Finding:
        raise Unavailable("it is away", next="wait")

    def broken() -> Finding:
        raise RuntimeError("no\nwords")

    soon = timedelta(milliseconds=50)
    wanted = [
        Check("hangs", hang, patience=soon, advice="call it"),
        Check("broken", broken),
        Check("away", away, is_gate=True),
        Check("after", broken),
    ]
    found = list(doctor.examined(wanted))
    never.set()
    assert [one.name for one in found] == ["hangs", "broken", "away"]
    assert {one.finding.level for one in found} == {Level.FAIL}
    assert found[0].finding == checkup.fail("no answer within 0 s", "call it")
    assert found[1].finding.words == "RuntimeError: no words"
    assert (found[2].finding.words, found[2].finding.next) == ("it is away", "wait")


def test_a_moment_without_a_holder_is_no_failure() -> None:
    good, bad = checkup.good("held"), checkup.fail("nobody holds: wake", "look")
    waited: list[float] = []
    found = [bad, bad, good]
    assert doctor.settled(lambda: found.pop(0), waited.append) == good
    assert doctor.settled(lambda: bad, waited.append) == bad
    # Within the patience of a check.
    assert sum(waited) < doctor.PATIENCE.total_seconds()


def test_what_a_plugin_says_of_itself_is_one_line_without_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot be imported may say anything; also where manent.yml needs it."""
    metadata = tmp_path / "evil-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[manent.plugins]\nevil = evil_plugin\n")
    (tmp_path / "evil_plugin.py").write_text("raise RuntimeError('no\\nway with hunter2222')\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "manent.yml"
    path.write_text("database: {url: 'sqlite:///none.db'}\n")
    assert not doctoring.examine(path, {"EVIL_TOKEN": "hunter2222"}, form="table")
    out = capsys.readouterr().out
    assert "evil cannot be used: cannot be imported: RuntimeError: no way with ***\n" in out
    error = ConfigurationError("plugin evil: no\nway with hunter2222", next="see")
    told = cli.complaint(error, {"EVIL_TOKEN": "hunter2222"})
    assert told == "manent-server: plugin evil: no way with ***\nnext: see\n"
    # As it was written: in one line of the screen it would be another text.
    error = ConfigurationError("plugin evil:  pass  word\t2 is wrong")
    assert cli.complaint(error, {"EVIL_TOKEN": "pass  word\t2"}).endswith("evil: *** is wrong\n")


def test_what_is_too_long_to_be_shown_shows_no_half_of_a_secret() -> None:
    secret = "correct-horse-battery-staple"  # noqa: S105 - a planted one
    check = Check("plugins", lambda: checkup.fail("x" * 390 + secret, secret))
    (found,) = doctor.examined([check], Redactor([secret]).redact)
    assert found.finding == checkup.fail("x" * 390 + "***", "***")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("audit: {key: no.pem}", "of the audit"),
        ("server: {tls: {certificate: no.pem, key: no.pem}}", "server.tls"),
        ("chat: {ops: {plugin: generic, signing_secret: 'secret://env/NONE'}}", "chat.ops"),
    ],
)
def test_what_keeps_a_server_from_starting_is_found(tmp_path: Path, more: str, said: str) -> None:
    path = tmp_path / "manent.yml"
    path.write_text(f"{more}\n")
    (tmp_path / "no.pem").write_text("no key\n")
    (first,) = doctor.examined(doctor.checks(house.open_house(path, {}))[:1])
    assert (first.name, first.finding.level) == ("configuration", Level.FAIL)
    assert said in first.finding.words
    assert first.finding.next


def test_a_form_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="yaml"):
        doctoring.examine(tmp_path / "manent.yml", {}, form="yaml")


def test_a_database_that_is_not_there_is_said_and_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "manent.yml"
    path.write_text("database: {url: 'sqlite:///none.db'}\n")
    assert not doctoring.examine(path, {}, form="json")
    found = json.loads(capsys.readouterr().out)
    last = found["checks"][-1]
    assert (found["good"], last["check"], last["level"]) == (False, "database", "fail")
    assert "schema" in found["left_out"]
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "none.db").touch()
    assert not doctoring.examine(path, {}, form="json")
    found = json.loads(capsys.readouterr().out)
    last = found["checks"][-1]
    assert (last["check"], last["level"], "migrate" in last["next"]) == ("schema", "fail", True)
    assert "restore" in found["left_out"]
