"""SQLite for one machine: busy and not locked, backed up and restored by the written steps."""

import concurrent.futures as cf
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import StartRig
from tests.rig import dumps
from tests.rig.ledger import Ledger
from tests.rig.process import until
from tests.rig.serve import Rig

pytestmark = pytest.mark.e2e

CLIENTS = 20


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """A reader that keeps its snapshot open all the while."""
    reader = sqlite3.connect(file)
    try:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM manent_deploys").fetchone()
        yield
    finally:
        reader.close()


# A hundred deploys of the rig on a machine that does other things too.
@pytest.mark.timeout(400)
@pytest.mark.parametrize("each", [5, pytest.param(25, marks=pytest.mark.soak)])
def test_many_clients_and_an_open_reader_meet_no_locked_database(
    start_rig: StartRig, ledger: Ledger, sqlite_url: str, each: int
) -> None:
    """B137: no 5xx, every deploy succeeds, heartbeats go on."""
    names = [f"app{number}" for number in range(CLIENTS)]
    config = {
        "environments": {"staging": {"concurrency": 8}},
        "applications": {name: ledger.application() for name in names},
    }
    rig = start_rig(sqlite_url, config)
    rig.ledger.tell({"flood": 200})
    statuses: list[int] = []
    done = threading.Event()

    def client(name: str) -> list[str]:
        return [str(rig.deploy(f"1.{n}", application=name)["id"]) for n in range(each)]

    def look() -> None:
        while not done.is_set():
            for path in ("/deploys", "/environments", "/inventory"):
                statuses.append(rig.http("GET", path).status_code)
            done.wait(0.1)

    with reading(Path(sqlite_url.removeprefix("sqlite:///"))), cf.ThreadPoolExecutor(24) as pool:
        lookers = [pool.submit(look) for _ in range(2)]
        try:
            deploys = [one for many in pool.map(client, names) for one in many]
            ends = {rig.ended(deploy, limit=600)["outcome"] for deploy in deploys}
        finally:
            done.set()
        for looker in lookers:
            looker.result()
    assert len(deploys) == CLIENTS * each
    assert ends == {"deployed"}
    assert set(statuses) == {200}
    assert "database is locked" not in rig.logs()
    traces = [line[-2000:] for line in rig.logs().splitlines() if "Traceback" in line]
    assert not traces, traces[0]
    assert len(rig.ledger.runs()) == len(deploys)
    assert rig.ledger.overlaps() == []


def said(rig: Rig, path: str, body: dict[str, Any]) -> httpx2.Response | None:
    """The answer to a POST; None while nobody listens."""
    try:
        return rig.http("POST", path, json=body)
    except httpx2.TransportError:
        return None


def it_says_that_nothing_can_be_written(rig: Rig, file: Path) -> None:
    """It still reads and answers: so it stays ready, and tells that its worker counts as lost."""

    def silent() -> dict[str, Any] | None:
        found: dict[str, Any] = rig.http("GET", "/readyz").json()
        return found if any("no heartbeat" in words for words in found["reasons"]) else None

    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    found = until(silent, what="a worker whose heartbeats are not written", limit=30.0)
    assert found is not None
    assert found["ready"]
    holder.close()
    until(lambda: not rig.http("GET", "/readyz").json()["reasons"], what="heartbeats", limit=30.0)


def test_a_backup_is_restored_with_what_was_running_in_it(
    start_rig: StartRig, sqlite_url: str, tmp_path: Path
) -> None:
    """B139: stop, remove -wal and -shm, copy, start; stale ones beside it replay nothing."""
    rig = start_rig(sqlite_url, {"recovery": {"heartbeat_interval": "500ms", "stale_after": "2s"}})
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    before = rig.deployed("1")
    it_says_that_nothing_can_be_written(rig, file)
    backup = tmp_path / "backup.db"
    with sqlite3.connect(file) as source, sqlite3.connect(backup) as copy:
        source.backup(copy)
        (highest,) = copy.execute("SELECT max(number) FROM manent_audit_chain").fetchone()
    copy.close()
    source.close()
    after = rig.deployed("2")
    # What was numbered after the last look is remembered by nobody: the page says so.
    until(lambda: dumps.noted(rig) > highest, what="a look after the backup")
    rig.kill()
    stale = [file.with_name(f"{file.name}-{kind}") for kind in ("wal", "shm")]
    assert any(path.exists() for path in stale), "the kill left a log to be wary of"
    for path in stale:
        path.unlink(missing_ok=True)
    shutil.copy(backup, file)
    rig.start(wait=False)
    opened = {"force": True, "reason": "what ran since is known"}
    until(
        lambda: (answer := said(rig, "/admin/restore/open", opened)) and answer.status_code == 200,
        what="a server that waits for a person, and is told to go on", limit=60,
    )  # fmt: skip
    until(rig.is_ready, what="the opened server", limit=60)
    assert [row["id"] for row in rig.get("/deploys")["items"]] == [before["id"]]
    assert rig.http("GET", f"/deploys/{after['id']}").status_code == 404
    (row,) = rig.get("/inventory")["items"]
    assert row["version"] == "1"
    again = rig.deployed("3")
    assert (again["outcome"], again["number"]) == ("deployed", 2)


def test_automatic_recovery_goes_on_after_a_kill(start_rig: StartRig, sqlite_url: str) -> None:
    """Leases on SQLite: a hook may outlast one; a restart on the same machine waits for none."""
    recovery = {"heartbeat_interval": "500ms", "stale_after": "2s", "auto_recover_after": "6s"}
    rig = start_rig(sqlite_url, {"recovery": recovery})
    rig.ledger.tell({"sleep": 6, "tick": 0.1}, version="long")
    long = rig.deploy("long")["id"]
    rig.ledger.tell({"sleep": 60, "tick": 0.1, "child": 60}, version="cut", attempt=1)
    cut = rig.deploy("cut", application="billing", environment="production")["id"]
    assert rig.ended(long)["outcome"] == "deployed"
    until(lambda: rig.ledger.children(deploy=cut), what="the hook")
    rig.kill()
    rig.start()
    assert rig.ended(cut, limit=60)["outcome"] == "deployed"
    first, second = rig.ledger.runs(deploy=cut)
    (child,) = rig.ledger.children(deploy=cut)
    assert max(first.until, child.until) < second.started
    attempts = rig.get(f"/deploys/{cut}/attempts")["items"]
    hooks = [a["result"] for a in attempts if a["step"].startswith("deploy:")]
    assert hooks == ["interrupted", "succeeded"]
    assert len(rig.ledger.runs(deploy=long)) == 1
