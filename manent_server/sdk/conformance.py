"""Trying a plugin out for real: its hooks run in processes of their own, under real guards.

`Trial` runs single hooks; `check` runs the rules every target plugin has to keep:

    def test_conforms(tmp_path):
        with Trial(tmp_path) as trial:
            check(trial, "mine", options={"root": str(tmp_path)}, state=lambda: read(tmp_path))
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

_WORKER: Final = "manent_server.plugins.trial"


class NotConforming(AssertionError):
    """A rule of the SDK is broken; the message says which, and what was seen."""


@dataclass(frozen=True)
class Ended:
    """How one hook ended.

    Attributes:
        result: succeeded, failed, timed_out, cancelled, not_started or interrupted.
        outputs: What it answered.
        error: `{code, message}`; None when it succeeded.
        lines: What it printed and logged.
        heartbeats: The checkpoints and progress it reported.
        is_dead: Whether nothing of it can act any more.
    """

    result: str
    outputs: Mapping[str, Any]
    error: Mapping[str, Any] | None
    lines: Sequence[str]
    heartbeats: Sequence[Mapping[str, Any]]
    is_dead: bool


@dataclass
class _Heard:
    lines: list[str] = field(default_factory=list)
    heartbeats: list[Mapping[str, Any]] = field(default_factory=list)


class Trial:
    """A worker without a server, for tests of plugins.

    Args:
        folder: Where it may write; a fresh one for each test.
        external: Argument lists of external plugins by name.
    """

    def __init__(self, folder: Path, external: Mapping[str, Sequence[str]] | None = None) -> None:
        self._folder = folder
        given = {name: list(argv) for name, argv in (external or {}).items()}
        self._worker = subprocess.Popen(
            [sys.executable, "-m", _WORKER, str(folder), json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        ready = self._hear()
        self.plugins: Mapping[str, Sequence[str]] = ready["plugins"]
        self.broken: Mapping[str, str] = ready["broken"]

    def __enter__(self) -> "Trial":
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.communicate()

    def run(self, plugin: str, hook: str, **values: Any) -> Ended:
        """Run a hook to its end.

        Args:
            plugin: Name of the plugin.
            hook: Name of the hook.
            values: Fields of the context that matter; the others have values that do not.
        """
        return self._run(plugin, hook, values, is_killed=False)

    def interrupt(self, plugin: str, hook: str, **values: Any) -> Ended:
        """Run a hook and kill it with its first line of output, as a crash would."""
        return self._run(plugin, hook, values, is_killed=True)

    def _run(self, plugin: str, hook: str, values: dict[str, Any], *, is_killed: bool) -> Ended:
        # Unique on the machine: processes are found, and killed, by the id of their attempt.
        attempt = f"trial-{uuid4().hex}"
        workdir = self._folder / attempt
        context = {**_context(), "workdir": str(workdir), **values}
        self._say({"attempt": attempt, "plugin": plugin, "hook": hook, "context": context})
        heard = _Heard()
        while (message := self._hear())["type"] != "end":
            if message["type"] == "line":
                heard.lines.append(message["text"])
            else:
                heard.heartbeats.append(message)
            if is_killed:
                self._say({"kill": attempt})
        return Ended(
            result=message["result"],
            outputs=message["outputs"] or {},
            error=message["error"],
            lines=heard.lines,
            heartbeats=heard.heartbeats,
            is_dead=message["is_dead"],
        )

    def _say(self, message: Mapping[str, Any]) -> None:
        assert self._worker.stdin is not None  # noqa: S101 - it was asked for as a pipe
        self._worker.stdin.write(json.dumps(message) + "\n")
        self._worker.stdin.flush()

    def _hear(self) -> dict[str, Any]:
        assert self._worker.stdout is not None  # noqa: S101 - it was asked for as a pipe
        line = self._worker.stdout.readline()
        if not line:
            self._worker.communicate()
            raise RuntimeError("the trial worker ended; its stderr says why")
        message: dict[str, Any] = json.loads(line)
        return message


def check(
    trial: Trial,
    plugin: str,
    *,
    options: Mapping[str, Any],
    state: Callable[[], Any],
    versions: tuple[str, str] = ("v1", "v2"),
) -> None:
    """Run the rules of a target plugin.

    Args:
        trial: Where its hooks run.
        plugin: Its name.
        options: Options of a target that may be changed at will.
        state: Reads what the plugin made of the target, as a value that can be compared.
        versions: Two versions it can put in place, the first one first.

    Raises:
        NotConforming: A rule is broken.
    """
    first, second = versions
    if plugin not in trial.plugins:
        raise NotConforming(f"{plugin} cannot be used: {trial.broken.get(plugin, 'not found')}")
    bench = _Bench(trial, plugin, options)
    bench.succeeds("deploy", first, None)
    once = state()
    bench.succeeds("deploy", first, None, attempt=2)
    _same(once, state(), "deploy ran twice with one idempotency key")
    bench.looks_right(first)
    bench.succeeds("deploy", second, first, idempotency_key="second")
    bench.looks_right(second)
    bench.succeeds("rollback", first, second, idempotency_key="back")
    _same(once, state(), f"{second} was deployed and rolled back")
    trial.interrupt(plugin, "deploy", **bench.values(second, first, idempotency_key="again"))
    bench.succeeds("deploy", second, first, idempotency_key="again", attempt=2)
    bench.looks_right(second)


@dataclass
class _Bench:
    trial: Trial
    plugin: str
    options: Mapping[str, Any]
    outputs: Mapping[str, Any] = field(default_factory=dict)

    def values(self, version: str, from_version: str | None, **more: Any) -> dict[str, Any]:
        return {
            "version": version,
            "from_version": from_version,
            "options": dict(self.options),
            "outputs": dict(self.outputs),
            **more,
        }

    def succeeds(self, hook: str, version: str, from_version: str | None, **more: Any) -> Ended:
        ended = self.trial.run(self.plugin, hook, **self.values(version, from_version, **more))
        if ended.result != "succeeded":
            raise NotConforming(f"{hook} of {version} {ended.result}: {ended.error}")
        if hook == "deploy":
            self.outputs = ended.outputs
        return ended

    def looks_right(self, version: str) -> None:
        """What verify and observe, where there are any, say of a version just put in place."""
        hooks = self.trial.plugins[self.plugin]
        if "verify" in hooks:
            self.succeeds("verify", version, None)
        if "observe" in hooks:
            seen = self.succeeds("observe", version, None).outputs
            if seen.get("in_place") is False:
                raise NotConforming(f"observe says that {version} is not in place: {dict(seen)}")


def _same(before: Any, after: Any, what: str) -> None:
    if before != after:
        raise NotConforming(f"{what}, and the state changed from {before!r} to {after!r}")


def _context() -> dict[str, Any]:
    return {
        "deploy": "trial",
        "kind": "deploy",
        "application": "shop",
        "environment": "staging",
        "target": "host",
        "options": {},
        "version": "v1",
        "idempotency_key": "first",
        "attempt": 1,
        "epoch": 1,
    }


def _environment() -> dict[str, str]:
    own = os.environ  # noqa: TID251 - a process of the plugin author's tests, not a hook
    return {**own, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
