"""The `release` plugin: an artifact unpacked beside the others, one link says which is current.

The page `docs/reference/targets/release.md` is its contract.
"""

import hashlib
import json
import os
import subprocess
from pathlib import Path

from manent_plugins.release.health import await_health, unhealthy
from manent_plugins.release.root import Root
from manent_plugins.release.schema import ReleaseOptions
from manent_plugins.release.service import Service
from manent_server.sdk import (
    Context,
    HookFailure,
    Observation,
    Options,
    PermanentFailure,
    hookimpl,
)

_REMEMBERED = 100


@hookimpl
def options() -> type[Options]:
    """The model of the options."""
    return ReleaseOptions


@hookimpl
def deploy(context: Context) -> None:
    """Unpack, switch, start; `verify` asks whether it became healthy."""
    _put_in_place(context)


@hookimpl
def rollback(context: Context) -> None:
    """The same with an earlier version, which has to become healthy as well."""
    _put_in_place(context)
    verify(context)


@hookimpl
def verify(context: Context) -> None:
    """Wait until the health URL is content, as long as the options allow."""
    service = Service(Root(Path(context.options.root)))

    def has_died() -> str | None:
        if context.options.service is None or service.is_alive:
            return None
        words = service.last_words()
        return f"the service ended{f', its last words: {words}' if words else ''}"

    await_health(context, has_died=has_died)


@hookimpl
def observe(context: Context) -> Observation:
    """What `current` leads to, and whether it is whole, running and healthy."""
    root = Root(Path(context.options.root))
    in_place = (
        root.version == context.version
        and root.is_whole(context.version)
        and _is_running(context, root)
        and unhealthy(context.options, context.version) is None
    )
    return Observation(root.version, in_place)


def _put_in_place(context: Context) -> None:
    root = Root(Path(context.options.root))
    try:
        with root.held(context):
            _change(context, root)
    except OSError as error:
        raise HookFailure(f"{root.path}: {error}", code="target_failed") from error


def _change(context: Context, root: Root) -> None:
    version = context.version
    has_changed = root.put(context)
    if not context.still_owner() or context.cancelled:
        raise HookFailure("stopped before the switch", code="stopped")
    has_moved = root.switch(version)
    if has_moved:
        _say(context, f"{root.path}/current leads to {version}")
    if has_changed or has_moved or not _is_running(context, root):
        # Forgotten first: a crash from here on must not pass for a start that was done.
        root.forget("started")
        _start(context, root)
        root.remember("started", {"seal": _seal(context, root), "version": version})
    else:
        _say(context, f"{version} is in place already: nothing to do")
    _tidy(context, root)


def _start(context: Context, root: Root) -> None:
    options: ReleaseOptions = context.options
    service = Service(root)
    service.stop(timeout=options.stop_timeout)
    folder = root.release(context.version)
    if options.service:
        variables = _environment(options, keeps_mark=False)
        pid = service.start(options.service, workdir=folder, environment=variables)
        _say(context, f"started {options.service[0]} as process {pid}; its output: {service.log}")
    elif options.restart:
        _restart(options, options.restart, folder)


def _restart(options: ReleaseOptions, argv: list[str], folder: Path) -> None:
    try:
        code = subprocess.run(
            argv,
            cwd=folder,
            env=_environment(options, keeps_mark=True),
            stdin=subprocess.DEVNULL,
            check=False,
        ).returncode
    except OSError as error:
        raise PermanentFailure(
            f"{argv[0]} cannot be run in {folder}: {error.strerror}", code="restart_not_run"
        ) from error
    if code != 0:
        raise HookFailure(f"{argv[0]} ended with exit code {code}", code="restart_failed")


def _environment(options: ReleaseOptions, *, keeps_mark: bool) -> dict[str, str]:
    """A service must not carry the mark of the attempt; a restart command is part of it."""
    inherited = {
        name: value
        for name, value in os.environ.items()  # noqa: TID251 - a hook's own, handed on
        if not name.startswith("MANENT_" if not keeps_mark else "MANENT_PROTOCOL_")
    }
    return {**inherited, **options.environment}


def _is_running(context: Context, root: Root) -> bool:
    """Whether what was last started is this release, with these options, and lives."""
    if root.recall("started").get("seal") != _seal(context, root):
        return False
    return context.options.service is None or Service(root).is_alive


def _seal(context: Context, root: Root) -> str:
    """Says that nothing a running process was started with has changed since."""
    options: ReleaseOptions = context.options
    digest = root.digest(context.version)
    said = [context.version, digest, options.service, options.restart, options.environment]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _tidy(context: Context, root: Root) -> None:
    """Keep the newest releases, and whatever a rollback may need or a person may want to see."""
    before = [version for version in root.recall("order").get("versions", []) if version]
    order = [context.version, *(version for version in before if version != context.version)]
    root.remember("order", {"versions": order[:_REMEMBERED]})
    previous = context.previous.version if context.previous is not None else None
    wanted = (context.version, context.from_version, previous)
    spared = {version for version in wanted if version is not None}
    try:
        removed = root.tidy(keep=context.options.keep, spared=spared, order=order)
    except OSError as error:
        said = f"old releases could not be removed: {error}"
        context.log.warning(said)
        return
    if removed:
        _say(context, f"removed old releases: {', '.join(removed)}")


def _say(context: Context, text: str) -> None:
    context.log.info(text)
