"""One process serves a SQLite file; a restore starts from the file alone."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from manent_server.domain.errors import StartRefused
from manent_server.store.engine import connect, dispose
from manent_server.store.file_lock import FileLock, serving
from manent_server.store.migrate import migrate
from manent_server.store.transaction import Store
from tests.integration.store import rows
from tests.integration.store.test_migrate import QUICK
from tests.rig.process import until

ROOT = Path(__file__).parents[3]
HOLD = (
    "import sys, pathlib\n"
    "from manent_server.store.file_lock import serving\n"
    "lock = serving(pathlib.Path(sys.argv[1]))\n"
    "print('held', flush=True)\n"
    "sys.stdin.read()\n"
)
# Writes without the file being told: what it added stands in the log beside it only.
CRASH = (
    "import sys, os, datetime\n"
    "from manent_server.store.engine import connect\n"
    "from manent_server.store.transaction import Store\n"
    "from tests.integration.store import rows\n"
    "engines = connect(sys.argv[1], pool=1, stale_after=datetime.timedelta(seconds=60))\n"
    "Store(engines).once(lambda transaction: rows.add(transaction, 'late'))\n"
    "os.kill(os.getpid(), 9)\n"
)


def test_a_second_process_on_one_file_is_refused(tmp_path: Path) -> None:
    """B137: two processes on one file: the second is told who serves it."""
    file = tmp_path / "manent.db"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, file],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StartRefused) as caught:
            serving(file)
        assert f"process {holder.pid} on {socket.gethostname()}" in caught.value.detail
        holder.kill()
    with serving(file):
        pass


def test_another_name_of_the_file_shares_its_lock(tmp_path: Path) -> None:
    file = tmp_path / "manent.db"
    file.touch()
    (tmp_path / "other.db").symlink_to(file)
    with serving(file), pytest.raises(StartRefused):
        serving(tmp_path / "other.db")


def test_a_released_lock_is_free(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.acquire()
    assert not second.acquire()
    assert second.holder() == f"process {os.getpid()} on {socket.gethostname()}"
    first.release()
    first.release()
    assert second.acquire()
    second.release()


def test_a_started_program_does_not_keep_the_lock(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    assert lock.acquire()
    sleep = [sys.executable, "-c", "import time; time.sleep(30)"]
    with subprocess.Popen(sleep, close_fds=False) as program:
        lock.release()
        # A process that another thread forks just now holds it until it has begun its program.
        until(FileLock(tmp_path / "lock").acquire, what="the lock to be free", limit=25)
        program.send_signal(signal.SIGKILL)


def test_the_holder_of_an_unreadable_file_is_still_another_process(tmp_path: Path) -> None:
    assert FileLock(tmp_path / "missing").holder() == "another process"


def test_the_steps_of_a_restore_leave_nothing_of_the_old_file(tmp_path: Path) -> None:
    """B139: stop, remove -wal and -shm, put the copy in place: only the copy's rows are there."""
    url = f"sqlite:///{tmp_path}/manent.db"
    engines = connect(url, pool=1, stale_after=timedelta(minutes=1))
    migrate(engines, library=QUICK)
    Store(engines).once(lambda transaction: rows.add(transaction, "early"))
    dispose(engines)
    shutil.copy(tmp_path / "manent.db", tmp_path / "copy.db")

    subprocess.run([sys.executable, "-c", CRASH, url], cwd=ROOT, check=False)
    assert (tmp_path / "manent.db-wal").stat().st_size > 0

    for ending in ("-wal", "-shm"):
        (tmp_path / f"manent.db{ending}").unlink()
    shutil.copy(tmp_path / "copy.db", tmp_path / "manent.db")
    restored = connect(url, pool=1, stale_after=timedelta(minutes=1))
    assert rows.names(Store(restored)) == {"early"}
    with restored.lone.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
    dispose(restored)
