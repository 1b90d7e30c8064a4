"""The `command` plugin: programs of yours do the work; no shell, values as variables.

The page `docs/reference/targets/command.md` is its contract.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from manent_plugins.command.program import Ended, Program, run
from manent_plugins.command.schema import CommandOptions
from manent_server.sdk import (
    Context,
    HookFailure,
    Observation,
    Options,
    PermanentFailure,
    RetryLater,
    hookimpl,
)

_DONE = 0
_PERMANENT = 65
_LATER = 75
_CHECKPOINT_LIMIT = 64 * 1024
_RETRY_AFTER = re.compile(r"retry_after=((?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+)")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


@hookimpl
def options() -> type[Options]:
    """The model of the options."""
    return CommandOptions


@hookimpl
def effects(options: CommandOptions | None) -> str:
    """What the target's options say."""
    return options.effects if options is not None else "idempotent"


@hookimpl
def deploy(context: Context) -> None:
    """Run the program `deploy`."""
    _run(context, context.options.deploy)


@hookimpl
def rollback(context: Context) -> None:
    """Run the program `rollback`, or `deploy` where there is none."""
    _run(context, context.options.rollback or context.options.deploy)


@hookimpl
def verify(context: Context) -> None:
    """Run the program `verify`; without one the exit code of `deploy` was the proof."""
    if context.options.verify:
        _run(context, context.options.verify)


@hookimpl
def observe(context: Context) -> Observation | None:
    """What the program `observe` prints; None without one."""
    if not context.options.observe:
        return None
    return _observation(_run(context, context.options.observe, is_captured=True))


def _run(context: Context, arguments: Sequence[str], *, is_captured: bool = False) -> Ended:
    program = Program(
        arguments=arguments,
        folder=_folder(context),
        workdir=context.workdir,
        environment=_environment(context),
        is_captured=is_captured,
    )
    ended = run(program, on_note=lambda line: _note(context, line))
    if ended.code == _DONE:
        return ended
    raise _failure(arguments[0], ended)


def _failure(name: str, ended: Ended) -> HookFailure:
    if ended.code == _PERMANENT:
        return PermanentFailure(f"{name} {ended}: it says that trying again would not help")
    if ended.code == _LATER:
        return RetryLater(f"{name} {ended}: it asks to be tried later", after=_after(ended))
    return HookFailure(f"{name} {ended}", code="program_failed")


def _after(ended: Ended) -> timedelta | None:
    match = _RETRY_AFTER.fullmatch(ended.output.last_line)
    if match is None:
        return None
    parts = _PART.findall(match[1])
    return timedelta(seconds=sum(float(number) * _SECONDS[unit] for number, unit in parts))


def _folder(context: Context) -> Path:
    """Where `./deploy` lies: in an unpacked artifact, else where the options or the server say."""
    if context.artifact is not None and context.artifact.path.is_dir():
        return context.artifact.path
    return context.folder / (context.options.directory or "")


def _environment(context: Context) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()  # noqa: TID251 - a hook's own, handed on
        if not name.startswith("MANENT_PROTOCOL_")
    }
    traced = {"TRACEPARENT": context.traceparent} if context.traceparent else {}
    return {**inherited, **traced, **context.options.environment, **_values(context)}


def _values(context: Context) -> dict[str, str]:
    """Every variable of the contract, always: an empty text says that there is none."""
    artifact = context.artifact
    return {
        "MANENT_DEPLOY_ID": context.deploy,
        "MANENT_KIND": context.kind,
        "MANENT_APPLICATION": context.application,
        "MANENT_ENVIRONMENT": context.environment,
        "MANENT_TARGET": context.target,
        "MANENT_VERSION": context.version,
        "MANENT_PREVIOUS_VERSION": context.from_version or "",
        "MANENT_ARTIFACT": str(artifact.path) if artifact is not None else "",
        "MANENT_ATTEMPT": str(context.attempt),
        "MANENT_EPOCH": str(context.epoch),
        "MANENT_IDEMPOTENCY_KEY": context.idempotency_key,
        "MANENT_CHECKPOINT": _as_text(context.checkpoint),
        "MANENT_WORKDIR": str(context.workdir),
    }


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _note(context: Context, line: str) -> None:
    """A line on the checkpoint descriptor: it also shows that the program is alive."""
    word, equals, text = line.partition("=")
    if word != "checkpoint" or not equals:
        said = f"not understood on MANENT_CHECKPOINT_FD: {line[:200]!r}"
        context.log.warning(said)
    elif len(json.dumps(text)) > _CHECKPOINT_LIMIT:
        context.log.warning("a checkpoint of more than 64 KiB was not stored")
    else:
        context.heartbeat(checkpoint=text)


def _observation(ended: Ended) -> Observation:
    try:
        found = json.loads(ended.output.text)
    except ValueError:
        found = None
    if not isinstance(found, Mapping):
        raise HookFailure('observe printed no JSON object like {"version": "v1", "in_place": true}')
    version, in_place = found.get("version"), found.get("in_place")
    if not isinstance(version, str | None) or not isinstance(in_place, bool | None):
        raise HookFailure("observe: version must be a text or null, in_place a boolean or null")
    return Observation(version, in_place)
