"""The image: built by a real engine, run with a read-only root, stopped by its first process."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.rig import tools
from tests.rig.engine import Engine
from tests.rig.ports import free_port
from tests.rig.process import until

ROOT = Path(__file__).parents[2]
IMAGE = "manent:rig"
LINES = (ROOT / "Containerfile").read_text().splitlines()
PIP = "--no-index --find-links /src/build/wheels --no-compile"
SERVE = (
    "--read-only", "--mount", "type=tmpfs,target=/tmp", "--network", "host", "--cap-drop", "ALL",
    "--security-opt", "no-new-privileges",
)  # fmt: skip


def test_it_runs_as_nobody_and_without_a_shell() -> None:
    """B127: the program is the first process, so a signal reaches it."""
    last = [line.split(" ", 1) for line in LINES if re.match("[A-Z]+ ", line)]
    said = dict(part for part in last if len(part) == 2)
    assert said["USER"] == "65532:65532"
    assert said["ENTRYPOINT"] == '["manent-server"]'
    assert said["CMD"] == '["serve"]'


def test_what_is_installed_from_is_in_the_context() -> None:
    """Nothing else is: no environment, no database, no token of whoever builds."""
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"]
    project = (ROOT / "pyproject.toml").read_text()
    for name in ("README.md", "LICENSE", "manent_server", "manent_cli", "plugins", "migrations"):
        assert name in kept
        assert name in project
    assert (ROOT / ".dockerignore").read_text().startswith("*\n")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("engine")
    try:
        made = Engine(folder / "docker")
    except tools.Missing as missing:
        pytest.skip(str(missing))
    with made:
        made.import_python("base:rig")
        context = folder / "context"
        copy(context)
        more = ("--build-arg", "BASE=base:rig", "--build-arg", f"PIP_OPTIONS={PIP}")
        place = ("--network", "host", "--file", str(context / "Containerfile"))
        made.run("build", "--tag", IMAGE, *place, *more, str(context))
        yield made


def copy(context: Path) -> None:
    """What `.dockerignore` lets in, and the wheels of everything it needs."""
    context.mkdir()
    for name in ("Containerfile", "LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, context)
    for name in ("manent_server", "manent_cli", "plugins", "migrations"):
        shutil.copytree(ROOT / name, context / name, ignore=shutil.ignore_patterns("__pycache__"))
    wheels = context / "build" / "wheels"
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(wheels)]
    subprocess.run([*pip, f"{context}[otel]", "hatchling"], check=True)


class Served:
    """One container of the image, with a configuration that deploys by a shell."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._api, self._probes = free_port(), free_port()
        file = folder / "manent.yml"
        file.write_text(yaml.safe_dump(self._config()))
        file.chmod(0o644)
        settings = ("--volume", f"{file}:/etc/manent/manent.yml:ro")
        data = ("--volume", "data:/var/lib/manent", "--env", "MANENT_CONFIG=/etc/manent/manent.yml")
        engine.run("run", "--detach", "--name", "served", *SERVE, *settings, *data, IMAGE)

    def _config(self) -> dict[str, Any]:
        url = f"127.0.0.1:{self._api}"
        server = {"listen": url, "metrics_listen": f"127.0.0.1:{self._probes}"}
        script = "id -u; touch /forbidden && exit 65; sleep 3"
        return {
            "server": {**server, "url": f"http://{url}"},
            "database": {"url": "sqlite:////var/lib/manent/manent.db"},
            "worker": {"workdir": "/var/lib/manent/work"},
            "audit": {"file": "-"},
            "environments": {"staging": {"tier": "staging"}},
            "applications": {"shop": {
                "plugin": "command", "options": {"deploy": ["/bin/sh", "-c", script]},
                "environments": {"staging": {"targets": {"here": {}}}},
            }},
        }  # fmt: skip

    def wait(self) -> None:
        """Until it is ready."""
        until(self._is_ready, what="ready", limit=120)

    def _is_ready(self) -> bool:
        state = self._engine.inspect("served")["State"]
        assert state["Running"], self._engine.run("logs", "served").stderr
        try:
            url = f"http://127.0.0.1:{self._probes}/readyz"
            return httpx2.get(url, trust_env=False).is_success
        except httpx2.TransportError:
            return False

    def manent(self, *arguments: str) -> str:
        """The command line, inside and signed in; all it says."""
        token = ("manent-server", "token", "create", "ci", "--role", "admin")
        made = self._engine.run("exec", "served", *token).stdout.strip()
        access = (f"MANENT_URL=http://127.0.0.1:{self._api}", f"MANENT_TOKEN={made}")
        env = [word for one in access for word in ("--env", one)]
        ended = self._engine.run("exec", *env, "served", "manent", *arguments)
        return ended.stdout + ended.stderr

    def stop(self) -> float:
        """As a platform does; how long it took."""
        began = time.monotonic()
        self._engine.run("stop", "--time", "60", "served")
        took = time.monotonic() - began
        state = self._engine.inspect("served")["State"]
        assert (state["ExitCode"], state["OOMKilled"]) == (0, False)
        return took


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_it_serves_deploys_and_stops(engine: Engine, tmp_path: Path) -> None:
    """B127: not root, nothing written outside its volume; idle it ends within seconds with 0."""
    served = Served(engine, tmp_path)
    served.wait()
    assert "65532" in served.manent("deploy", "shop", "staging", "v1")
    engine.run("exec", "served", "/opt/manent/bin/python", "-c", "import opentelemetry.sdk.trace")
    served.manent("deploy", "shop", "staging", "v2", "--no-wait")
    assert served.stop() < 30
    logs = engine.run("logs", "served")
    assert "draining" in logs.stderr
    assert '"deploy.' in logs.stdout
    engine.run("start", "served")
    served.wait()
    assert "v2" in served.manent("inventory", "shop")
    # Kinder than what a platform allows, and a busy machine.
    assert served.stop() < 10
