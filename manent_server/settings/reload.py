"""What a running process takes up of a configuration read anew."""

from collections.abc import Mapping
from dataclasses import fields, replace

from manent_server.settings import files
from manent_server.settings.digest import NOT_COMPARED, digest
from manent_server.settings.findings import Findings
from manent_server.settings.schema import RELOADED
from manent_server.settings.values import Settings


def reload(running: Settings, fresh: Settings) -> tuple[Settings, tuple[str, ...]]:
    """The settings in force from now on, and the top-level keys that wait for a restart."""
    kept = {
        item.name: getattr(running, item.name)
        for item in fields(Settings)
        if item.name not in NOT_COMPARED and item.name not in RELOADED
    }
    kept["executor_id"] = running.executor_id
    waiting = tuple(name for name, value in kept.items() if value != getattr(fresh, name))
    environments = {
        name: replace(environment, concurrency=running.environment_concurrency)
        if name in fresh.inheriting
        else environment
        for name, environment in fresh.environments.items()
    }
    settings = replace(fresh, **kept, environments=environments)
    return replace(settings, digest=digest(settings)), waiting


def changed(running: Settings, fresh: Settings) -> tuple[str, ...]:
    """The top-level keys whose values are others; what a template holds shows where it is used."""
    names = [item.name for item in fields(Settings) if item.name in RELOADED]
    return tuple(name for name in names if getattr(running, name) != getattr(fresh, name))


def is_outdated(settings: Settings, *, environ: Mapping[str, str]) -> bool:
    """Whether the files were changed, or are others, since these settings were read."""
    found = files.read(settings.path, Findings(), environ=environ)
    return (found.paths, found.modified_at) != (settings.files, settings.modified_at)
