"""One target with the example service on it, deployed to by calling the hooks in this process."""

import hashlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from manent_plugins import release
from manent_plugins.release.root import Root
from manent_plugins.release.schema import ReleaseOptions
from manent_plugins.release.service import Service
from manent_server.sdk import Artifact, Context
from tests.plugins.contexts import Heard, context
from tests.rig.ports import free_port

PYTHON = str(getattr(sys, "_base_executable", sys.executable))
PACKAGE = Path(__file__).parents[2] / "examples" / "hello" / "package.py"
QUIET = {"service": None, "health": None, "health_field": None}


def artifact(path: Path) -> Artifact:
    return Artifact(path, hashlib.sha256(path.read_bytes()).hexdigest())


class Place:
    """One target with the hello service on it."""

    def __init__(self, folder: Path, hello: dict[str, Artifact]) -> None:
        self.root = folder / "srv" / "hello"
        self.port = free_port()
        self.hello = hello
        self.heard = Heard()
        self._workdir = folder / "work"
        self._epoch = 0

    def context(self, version: str, **values: Any) -> Context:
        self._epoch += 1
        given = {"artifact": self.hello.get(version), "from_version": None, "epoch": self._epoch}
        options = values.pop("options", {})
        return context(
            self._workdir,
            self.options(**options),
            self.heard,
            version=version,
            **{**given, **values},
        )

    def options(self, **values: Any) -> ReleaseOptions:
        given = {
            "root": str(self.root),
            "service": [PYTHON, "-S", "-E", "hello.py"],
            "environment": {"PORT": str(self.port)},
            "health": f"http://127.0.0.1:{self.port}/healthz",
            "health_field": "version",
            "health_timeout": "10s",
            "health_interval": "50ms",
        }
        chosen = {key: value for key, value in {**given, **values}.items() if value is not None}
        return ReleaseOptions.model_validate(chosen)

    def deploy(self, version: str, **values: Any) -> Context:
        given = self.context(version, **values)
        release.deploy(given)
        return given

    def answer(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def wait_until_it_answers(self) -> None:
        """A started service is not a listening one yet."""
        deadline = time.monotonic() + 20
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert time.monotonic() < deadline
            time.sleep(0.02)

    @property
    def releases(self) -> list[str]:
        return sorted(path.name for path in (self.root / "releases").iterdir())

    def close(self) -> None:
        Service(Root(self.root)).stop(timeout=timedelta(seconds=5))


def pack_hello(folder: Path) -> dict[str, Artifact]:
    """The example service at its three versions."""
    subprocess.run([sys.executable, PACKAGE, folder], check=True, capture_output=True)
    return {path.name.split(".")[0]: artifact(path) for path in folder.iterdir()}


@contextmanager
def a_place(folder: Path) -> Iterator[Place]:
    """A target in `folder`; its service is stopped at the end."""
    place = Place(folder, pack_hello(folder / "packed"))
    yield place
    place.close()
