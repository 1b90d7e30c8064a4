"""The hooks a plugin may offer. A target plugin has `deploy`; every other one is optional."""

from collections.abc import Mapping, Sequence
from typing import Any

import pluggy

from manent_server.sdk.context import Context, Observation
from manent_server.sdk.options import Options

PROJECT = "manent"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def deploy(context: Context) -> Mapping[str, Any] | None:
    """Put `context.version` in place on the target.

    It may run again after a crash, with the same `idempotency_key`: it must be idempotent, or
    `effects` must say `once`. What it returns (JSON, at most 64 KiB, no secrets) is given to
    `verify`, to `rollback` and, as `previous.outputs`, to the next deploy of the target.
    """


@hookspec(firstresult=True)
def rollback(context: Context) -> Mapping[str, Any] | None:
    """Put `context.version`, an earlier one, back in place of `context.from_version`.

    Called in automatic rollback and in deploys of kind rollback alike; a plugin without it gets
    `deploy`. The rules of `deploy` hold.
    """


@hookspec(firstresult=True)
def verify(context: Context) -> bool | None:
    """Find out whether what was deployed is healthy: return, or raise with the reason.

    Returning False is a failure too, one without a reason.
    """


@hookspec(firstresult=True)
def observe(context: Context) -> Observation | None:
    """Say what runs on the target, changing nothing; None when it cannot be told.

    It is asked after an interrupted hook, and outside of any run for the list of a restored
    database: then `artifact` is None, `attempt` is 1 and nothing it prints is kept.
    """


@hookspec(firstresult=True)
def plan(context: Context) -> Sequence[str] | None:
    """Say in sentences what `deploy` would change, changing nothing."""


@hookspec(firstresult=True)
def options() -> type[Options] | None:
    """The model of the plugin's options in manent.yml; unknown keys are refused at load.

    With `needs_artifact = True` in it an application without an `artifact` is refused as well.
    """


@hookspec(firstresult=True)
def effects(options: Any) -> str | None:
    """`idempotent` (the default) or `once`: whether `deploy` and `rollback` may run again.

    Asked with a target's options, or with None for the plugin's answer when it has no options.
    """


@hookspec
def deploy_event(event: Mapping[str, Any]) -> None:
    """Hear what happened to a deploy: server-wide, after the fact, never able to stop it.

    Called in the server, outside of every deploy, for each event named `deploy.*` as `/events`
    shows it. It may be called again with the same event after a crash: `event["id"]` stays the
    same. What it raises is logged and counted, and the next event comes all the same; while it
    runs, no other event comes to any plugin.
    """


@hookspec(firstresult=True)
def resolve_secret(reference: str, settings: Mapping[str, Any]) -> str | None:
    """The value behind a `secret://` reference; None when the store is not this plugin's."""


@hookspec(firstresult=True)
def environment_config(application: str, environment: str) -> Mapping[str, Any] | None:
    """The configuration of an application in an environment; None when it has none here."""


TARGET_HOOKS = frozenset({"deploy", "rollback", "verify", "observe", "plan"})
"""Hooks that run in a process of their own, under a guard."""
SERVER_HOOKS = frozenset({"deploy_event", "resolve_secret", "environment_config"})
ALL_HOOKS = TARGET_HOOKS | SERVER_HOOKS | {"options", "effects"}
