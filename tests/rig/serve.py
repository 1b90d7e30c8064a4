"""`manent-server serve` as a user runs it: real processes, one manent.yml each, one database."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx2
import yaml

from tests.rig import forge, prepared
from tests.rig.ledger import Ledger
from tests.rig.ports import free_port
from tests.rig.process import Ended, Process, sweep, until

BIN = Path(sys.executable).parent
ENDED = ("SUCCESS", "ERROR", "CANCELLED")
MAIN = "w0"
# Fast enough for tests, slow enough for a machine that does two things at once. Queues are looked
# at as often as by default: twice as often costs each waiting test a tenth of a processor.
FAST: dict[str, Any] = {
    "recovery": {"heartbeat_interval": "1s", "stale_after": "5s"},
    "dbos": {"drain_timeout": "60s"},
    "worker": {"kill_grace": "1s"},
}
_OUTSIDE_API = ("/api/", "/livez", "/readyz", "/metrics", "/openapi.json")
# A start takes two seconds; on a machine that does ten things at once, much longer.
_READY_LIMIT = 90.0

Config = Mapping[str, Any]
Finished = subprocess.CompletedProcess[str]


class Rig:
    """A server with a worker, further workers at will, a ledger, a token, a client.

    Use it as a context manager (the fixtures do): it migrates the database, makes a token of
    an administrator and starts the server; at the end nothing of it is left running.

    Args:
        folder: Where manent.yml, logs and the ledger live.
        database_url: As in manent.yml.
        config: Merged over fast timings and the ledger's two applications, key by key.
        options: Of the main process's `serve`, e.g. `("--no-worker",)`.
        environ: Further variables of all server processes.
    """

    def __init__(
        self,
        folder: Path,
        database_url: str,
        config: Config | None = None,
        *,
        options: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.ledger = Ledger(folder)
        self.database_url = database_url
        self.token = ""
        self._environ = {**path_environment(folder), **(environ or {})}
        self._config = merged(FAST, applications(self.ledger), config or {})
        self._config = merged(self._config, {"database": {"url": database_url}})
        self._options = {MAIN: tuple(options)}
        self._own_environ: dict[str, Mapping[str, str]] = {}
        self._ports: dict[str, tuple[int, int]] = {}
        self._processes: dict[str, Process] = {}
        self._client: httpx2.Client | None = None

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Life of the processes

    def prepare(self) -> None:
        """Write manent.yml, migrate the database and make the token (or copy both)."""
        self.write_config()
        if (token := prepared.take(self.database_url, self.folder)) is not None:
            self.token = token
            return
        self.server_cli(["migrate"], check=True)
        self.token = self.new_token("ci", "admin")
        prepared.keep(self.database_url, self.folder, self.token)

    def new_token(self, name: str, role: str) -> str:
        """Make a token by the server's command."""
        made = self.server_cli(["token", "create", name, "--role", role], check=True)
        return made.stdout.strip()

    def start(self, name: str = MAIN, *, wait: bool = True) -> Process:
        """Start a process (again) and wait until it is ready."""
        process = Process(
            self.command(name),
            log=self.folder / f"{name}.log",
            environ={
                **self._environ,
                **self._own_environ.get(name, {}),
                "MANENT_CONFIG": str(self.config_file(name)),
            },
        )
        self._processes[name] = process
        if wait:
            until(lambda: self.is_ready(name), what=f"{name} ready", limit=_READY_LIMIT)
        return process

    def command(self, name: str) -> list[str]:
        """How a process is started."""
        return [str(BIN / "manent-server"), "serve", *self._options[name]]

    def start_worker(
        self,
        executor_id: str = "w1",
        *options: str,
        environ: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> Process:
        """Start a further worker on the same database (Postgres only), without the API."""
        self._options[executor_id] = ("--no-api", *options)
        self._own_environ[executor_id] = environ or {}
        self.write_config(executor_id)
        return self.start(executor_id, wait=wait)

    def kill(self, name: str = MAIN) -> None:
        """SIGKILL the process and nothing else."""
        self.process(name).kill()

    def stop(self, name: str = MAIN, *, limit: float = 30.0) -> int:
        """SIGTERM the process, wait for its end and return its exit code."""
        return self.process(name).stop(limit=limit)

    def send(self, number: signal.Signals, name: str = MAIN) -> None:
        """Send the process a signal."""
        self.process(name).send(number)

    def process(self, name: str = MAIN) -> Process:
        """The process of this name, as last started."""
        return self._processes[name]

    def logs(self, name: str = MAIN) -> str:
        """Everything the processes of this name have said, all starts together."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def is_ready(self, name: str = MAIN) -> bool:
        """Whether `/readyz` says so; an error when the process has ended."""
        process = self.process(name)
        if not process.is_running():
            raise Ended(f"{name} ended with {process.exit_code}:\n{process.last_words()}")
        try:
            return self._http().get(f"{self._probe(name)}/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def close(self) -> None:
        """End everything, also what hooks have left behind on purpose."""
        for process in self._processes.values():
            process.kill()
        sweep(self.folder)
        if self._client is not None:
            self._client.close()

    # Configuration

    def config_file(self, name: str = MAIN) -> Path:
        """manent.yml of a process."""
        return self.folder / ("manent.yml" if name == MAIN else f"{name}.yml")

    def configure(self, config: Config) -> None:
        """Merge more into the configuration of all processes and write it anew."""
        self._config = merged(self._config, config)
        for name in self._options:
            self.write_config(name)

    def write_config(self, name: str = MAIN) -> None:
        """Write manent.yml of a process: its own executor id, addresses and work folder."""
        api, metrics = self._ports.setdefault(name, (free_port(), free_port()))
        own = {
            "executor_id": name,
            "server": {
                "listen": f"127.0.0.1:{api}",
                "metrics_listen": f"127.0.0.1:{metrics}",
                "url": self.url,
            },
            "worker": {"workdir": f"work-{name}"},
        }
        text = yaml.safe_dump(merged(own, self._config), sort_keys=False)
        self.config_file(name).write_text(text)

    @property
    def url(self) -> str:
        """Address of the API."""
        return f"http://127.0.0.1:{self._ports[MAIN][0]}"

    def metrics_url(self, name: str = MAIN) -> str:
        """Address of the metrics listener of a process."""
        return f"http://127.0.0.1:{self._ports[name][1]}"

    # What a user does

    def cli(self, arguments: Sequence[str], **more: Any) -> Finished:
        """Run `manent` with these arguments, signed in; keywords as of `run`."""
        access = {"MANENT_URL": self.url, "MANENT_TOKEN": self.token}
        return self._run("manent", arguments, access, more)

    def server_cli(self, arguments: Sequence[str], **more: Any) -> Finished:
        """Run `manent-server` with this rig's manent.yml; keywords as of `run`."""
        where = {"MANENT_CONFIG": str(self.config_file())}
        return self._run("manent-server", arguments, where, more)

    def http(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """One request below /api/v1 (or to a probe), signed in; keywords as of `httpx2`."""
        place = path if path.startswith(_OUTSIDE_API) else f"/api/v1{path}"
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        return self._http().request(method, self.url + place, headers=headers, **more)

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of a GET that must succeed."""
        answer = self.http("GET", path, params=query)
        if answer.status_code != 200:
            raise AssertionError(f"GET {path}: {answer.status_code} {answer.text}")
        return answer.json()

    def deploy(self, version: str, **fields: Any) -> dict[str, Any]:
        """Ask for a deploy of shop to staging (or as the fields say); the 202's body."""
        body = {"application": "shop", "environment": "staging", "version": version, **fields}
        answer = self.http("POST", "/deploys", json=body)
        if answer.status_code != 202:
            raise AssertionError(f"deploy refused: {answer.status_code} {answer.text}")
        accepted: dict[str, Any] = answer.json()
        return accepted

    def ended(self, deploy: str, *, limit: float = 30.0) -> dict[str, Any]:
        """Wait for a deploy's end and return it."""

        def ask() -> dict[str, Any] | None:
            found: dict[str, Any] = self.get(f"/deploys/{deploy}")
            return found if found["state"] in ENDED else None

        return until(ask, what=f"end of {deploy}", limit=limit, longest=0.25) or {}

    def deployed(self, version: str, **fields: Any) -> dict[str, Any]:
        """Deploy and wait for the end."""
        return self.ended(self.deploy(version, **fields)["id"])

    def _http(self) -> httpx2.Client:
        if self._client is None:
            self._client = httpx2.Client(trust_env=False, timeout=30.0, verify=False)
        return self._client

    def _probe(self, name: str) -> str:
        return self.metrics_url(name) if "--no-api" in self._options[name] else self.url

    def _run(
        self, program: str, arguments: Sequence[str], own: dict[str, str], more: dict[str, Any]
    ) -> Finished:
        environ = {**self._environ, **own, **more.pop("environ", {})}
        return run([str(BIN / program), *arguments], cwd=self.folder, environ=environ, **more)


def run(  # noqa: PLR0913 - what `subprocess.run` takes, in the rig's words
    command: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    input: str = "",  # noqa: A002 - the name `subprocess.run` uses
    check: bool = False,
    limit: float = 100.0,
) -> Finished:
    """Run a command to its end; with `check` an exit code other than 0 is an error."""
    if forge.suits(command, environ):
        ended = forge.run(command, folder=cwd, environ=environ, said=input, limit=limit)
    else:
        ended = subprocess.run(
            command, cwd=cwd, env=environ, input=input,
            text=True, capture_output=True, timeout=limit, check=False,
        )  # fmt: skip
    if check and ended.returncode != 0:
        said = f"{ended.stdout}{ended.stderr}"
        raise AssertionError(f"{' '.join(command)}: exit {ended.returncode}\n{said}")
    return ended


def applications(ledger: Ledger) -> dict[str, Any]:
    """Two applications, shop and billing, in staging and production, acting into the ledger."""
    places = ("staging", "production")
    return {
        "environments": {"staging": {"tier": "staging"}, "production": {"tier": "production"}},
        "applications": {
            name: ledger.application(environments=places) for name in ("shop", "billing")
        },
    }


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Maps merge key by key, everything else is replaced; None removes a key."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if value is None:
                result.pop(key, None)
            elif isinstance(value, Mapping):
                below = result.get(key)
                result[key] = merged(below if isinstance(below, Mapping) else {}, value)
            else:
                result[key] = value
    return result


def path_environment(home: Path, *, first: Path | None = None) -> dict[str, str]:
    """A process's variables: nothing of the developer's own, no context, proxy or MANENT_ name."""
    path = os.environ.get("PATH", os.defpath)  # noqa: TID251 - programs of hooks are found there
    places = os.pathsep.join([*([str(first)] if first else []), path])
    return {"PATH": places, "HOME": str(home), "LANG": "C.UTF-8"}
