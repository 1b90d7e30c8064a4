"""A real PgBouncer before a Postgres, as a direct child."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

MISSING: Final = "PgBouncer is missing; install it with: apt-get install pgbouncer"
_PROGRAM: Final = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
_USER_NAMESPACE: Final = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_NOBODY: Final = 65534


def is_installed() -> bool:
    return _PROGRAM is not None


class PgBouncer:
    """Pools sessions, transactions or statements of one server."""

    def __init__(self, folder: Path, *, server: int, mode: str, size: int, turns: bool) -> None:
        if _PROGRAM is None:
            raise RuntimeError(MISSING)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        config = folder / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\n"
            f"unix_socket_dir =\nauth_type = any\npool_mode = {mode}\n"
            f"default_pool_size = {size}\nmin_pool_size = {size}\n"
            f"server_round_robin = {int(turns)}\nlogfile =\n"
        )
        # "any" ignores the user a client names; the server knows `postgres`.
        text = config.read_text().replace(f"port={server}", f"port={server} user=postgres")
        config.write_text(text)
        self._process = subprocess.Popen(
            [*_prefix(), _PROGRAM, "-q", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait_until_ready()

    def close(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _wait_until_ready(self) -> None:
        limit = time.monotonic() + 10
        while time.monotonic() < limit:
            if self._process.poll() is not None:
                raise RuntimeError(f"pgbouncer ended with {self._process.returncode}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise TimeoutError


def _prefix() -> list[str]:
    """PgBouncer refuses user id 0, as Postgres does."""
    die_with_parent = ["setpriv", "--pdeathsig", "TERM"]
    if os.geteuid() != 0:
        return die_with_parent
    tried = subprocess.run([*_USER_NAMESPACE, "true"], stderr=subprocess.DEVNULL, check=False)
    if tried.returncode == 0:
        return [*_USER_NAMESPACE, *die_with_parent]
    return [*die_with_parent, f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
