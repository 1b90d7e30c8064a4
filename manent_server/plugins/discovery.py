"""Finding the plugins written in Python, by entry points; a broken one disables only itself."""

import difflib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import pluggy

from manent_server.plugins import schema
from manent_server.plugins.target import Target
from manent_server.sdk import hooks as specifications

GROUP: Final = "manent.plugins"


@dataclass(slots=True)
class Found:
    """What the entry points gave.

    Attributes:
        targets: Loaded plugins by name.
        builds: The version of the distribution each came with.
        wrappers: Names of plugins that only wrap the hooks of others.
        broken: Why the others cannot be used.
    """

    targets: dict[str, Target] = field(default_factory=dict)
    builds: dict[str, str] = field(default_factory=dict)
    wrappers: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)


def find() -> Found:
    """Load every plugin that is announced."""
    found = Found()
    plugins = _load(entry_points(group=GROUP), found)
    wrappers = {name: plugin for name, plugin in plugins.items() if _only_wraps(plugin)}
    for name in sorted(wrappers):
        _try_wrapper(name, wrappers[name], found)
    for name in sorted(plugins.keys() - wrappers.keys()):
        try:
            manager = _manager({name: plugins[name], **_used(wrappers, found)})
            found.targets[name] = _target(name, plugins[name], manager)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it is its own affair
            found.broken[name] = str(error)
    return found


def _load(announced: Iterable[EntryPoint], found: Found) -> dict[str, Any]:
    plugins: dict[str, Any] = {}
    sources: dict[str, EntryPoint] = {}
    for entry in sorted(set(announced), key=lambda entry: (entry.name, entry.value)):
        if entry.name in sources:
            both = f"{sources[entry.name].value} and {entry.value}"
            found.broken[entry.name] = f"announced twice, as {both}"
            plugins.pop(entry.name, None)
            continue
        sources[entry.name] = entry
        found.builds[entry.name] = entry.dist.version if entry.dist else "unknown"
        try:
            plugin = entry.load()
            plugins[entry.name] = plugin() if inspect.isclass(plugin) else plugin
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an import may do anything
            found.broken[entry.name] = f"cannot be imported: {type(error).__name__}: {error}"
    return plugins


def _try_wrapper(name: str, plugin: Any, found: Found) -> None:
    try:
        _manager({name: plugin})
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it is its own affair
        found.broken[name] = str(error)
    else:
        found.wrappers.append(name)


def _used(wrappers: dict[str, Any], found: Found) -> dict[str, Any]:
    return {name: wrappers[name] for name in found.wrappers}


def _manager(plugins: dict[str, Any]) -> pluggy.PluginManager:
    """A manager with these plugins; a hook nobody specified is an error naming the nearest."""
    manager = pluggy.PluginManager(specifications.PROJECT)
    manager.add_hookspecs(specifications)
    for name, plugin in plugins.items():
        for hook in _implemented(plugin):
            if hook not in specifications.ALL_HOOKS:
                raise ValueError(
                    f"unknown hook {hook}{schema.hint(hook, specifications.ALL_HOOKS)}"
                )
        manager.register(plugin, name)
    manager.check_pending()
    return manager


def _target(name: str, plugin: Any, manager: pluggy.PluginManager) -> Target:
    target = Target(name, manager)
    target.effects(None)
    if target.hooks & specifications.SERVER_HOOKS or "deploy" in target.hooks:
        return target
    for near in (near for near in dir(plugin) if not near.startswith("_")):
        if difflib.get_close_matches(near, ["deploy"], cutoff=0.75):
            raise ValueError(f"has no hook deploy; is {near} meant, and marked with @hookimpl?")
    raise ValueError("has no hook deploy")


def _implemented(plugin: Any) -> list[str]:
    return [name for name in dir(plugin) if _marks(plugin, name) is not None]


def _only_wraps(plugin: Any) -> bool:
    marks = [_marks(plugin, name) for name in _implemented(plugin)]
    return bool(marks) and all(mark["wrapper"] or mark["hookwrapper"] for mark in marks if mark)


def _marks(plugin: Any, name: str) -> dict[str, Any] | None:
    """What `@hookimpl` noted on an attribute; None when it is no hook."""
    member = inspect.getattr_static(plugin, name, None)
    marks = getattr(member, f"{specifications.PROJECT}_impl", None)
    return marks if isinstance(marks, dict) else None
