"""A manent server of its own in a temporary folder, and the ways to talk to it."""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from adoption import adopt_orphans, end_descendants

BIN = Path(sys.executable).parent
HELLO = Path(__file__).resolve().parent / "hello"
PLACES = (("staging", "web-1"), *(("production", f"web-{number}") for number in (1, 2, 3)))
_READY_SECONDS = 60.0
_COMMAND_SECONDS = 90.0
_STOP_SECONDS = 20.0
_END_SECONDS = 5.0
# Below the range the kernel gives to outgoing connections, so that a port stays free while its
# service is stopped and started again.
_PORTS = range(20_000, 32_000)


class Trouble(Exception):
    """Something is not as it should be; the text says what."""


class Playground:
    """A folder, free ports, a server; nothing of it is left after the `with` block.

    The folder stays when the block ends with `Trouble`, for a look at the server's log.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="manent-demo-")).resolve()
        self._api, metrics, *services = _free_ports(2 + len(PLACES))
        self._ports = dict(zip(PLACES, services, strict=True))
        self._environ = {
            **_bare_environment(),
            "HELLO_FOLDER": str(self.folder),
            "HELLO_PYTHON": sys.executable,
            "HELLO_API": str(self._api),
            "HELLO_METRICS": str(metrics),
            **{f"HELLO_{n}": str(port) for n, port in enumerate(services, start=1)},
        }
        self._server: subprocess.Popen[bytes] | None = None
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def __enter__(self) -> Self:
        adopt_orphans()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A second Ctrl-C must not leave half of it running; this ends within seconds by itself.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        left = self._stop()
        if kind is None or not issubclass(kind, Trouble):
            shutil.rmtree(self.folder, ignore_errors=True)
        if left:
            raise Trouble(f"still running: {', '.join(map(str, sorted(left)))}")

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self._api}"

    @property
    def log(self) -> Path:
        """What the server says."""
        return self.folder / "server.log"

    def service_url(self, environment: str, target: str) -> str:
        """Address of the service on a target."""
        return f"http://127.0.0.1:{self._ports[environment, target]}/"

    def start(self) -> None:
        """Make a token (which makes the database), start the server, wait until it is ready."""
        shutil.copy(HELLO / "manent.yml", self.folder)
        token = self._run("manent-server", "token", "create", "demo", "--role", "admin").strip()
        self._environ |= {"MANENT_URL": self.url, "MANENT_TOKEN": token}
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C reaches the demo, which ends the server in order.
            self._server = subprocess.Popen(
                [BIN / "manent-server", "serve"],
                cwd=self.folder, env=self._environ, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self._await_ready(self._server)

    def show(self, *arguments: str) -> int:
        """Run `manent` and let it talk to whoever watches; its exit code."""
        return self._watched(arguments, stdout=None).returncode

    def deploy(self, *arguments: str) -> tuple[str, int]:
        """Run `manent deploy` as `show` does; the id of the deploy, and the exit code."""
        ended = self._watched(("deploy", *arguments), stdout=subprocess.PIPE)
        deploy = (ended.stdout or b"").decode().strip()
        if not deploy:
            raise Trouble(f"manent deploy {' '.join(arguments)} gave no deploy to look at")
        return deploy, ended.returncode

    def get(self, path: str) -> Any:
        """What the server's API answers."""
        token = self._environ["MANENT_TOKEN"]
        return self._get(f"{self.url}/api/v1{quote(path)}", {"Authorization": f"Bearer {token}"})

    def answer(self, url: str) -> Mapping[str, Any]:
        """What a service says it is; an empty map when it does not answer."""
        try:
            answer = self._get(url, {})
        except Trouble:
            return {}
        return answer if isinstance(answer, dict) else {}

    def _get(self, url: str, headers: Mapping[str, str]) -> Any:
        request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - http, made here
        try:
            with self._open(request, timeout=30) as response:
                return json.load(response)
        except (OSError, ValueError) as error:
            raise Trouble(f"GET {url}: {error}") from error

    def _run(self, program: str, *arguments: str) -> str:
        ended = subprocess.run(
            [BIN / program, *arguments], cwd=self.folder, env=self._environ, check=False,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_COMMAND_SECONDS,
        )  # fmt: skip
        if ended.returncode != 0:
            said = f"{ended.stdout}{ended.stderr}".strip()
            raise Trouble(f"{program} {' '.join(arguments)} ended {ended.returncode}: {said}")
        return ended.stdout

    def _watched(
        self, arguments: tuple[str, ...], *, stdout: int | None
    ) -> subprocess.CompletedProcess[bytes]:
        sys.stdout.flush()
        try:
            return subprocess.run(
                [BIN / "manent", *arguments], cwd=self.folder, env=self._environ, check=False,
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=sys.stdout,
                timeout=_COMMAND_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            said = f"manent {' '.join(arguments)} did not end within {_COMMAND_SECONDS:g} s"
            raise Trouble(said) from error

    def _await_ready(self, server: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            if server.poll() is not None:
                raise Trouble(f"the server ended with exit code {server.returncode}")
            with contextlib.suppress(OSError), self._open(f"{self.url}/readyz", timeout=5):
                return
            time.sleep(0.1)
        raise Trouble(f"the server was not ready within {_READY_SECONDS:g} s")

    def _stop(self) -> set[int]:
        """The server first, so that nobody starts anything any more; then what is left."""
        if self._server is not None and self._server.poll() is None:
            self._server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(_STOP_SECONDS)
        return end_descendants(grace=_END_SECONDS)


def _free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 nobody listens on, no two the same."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            return found
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found.append(port)
    raise Trouble(f"fewer than {count} ports of 127.0.0.1 are free")


def _bare_environment() -> dict[str, str]:
    """What this program was given, without what would point manent elsewhere."""
    given = os.environ.items()  # noqa: TID251 - handed on
    return {name: value for name, value in given if not name.startswith("MANENT_")}
