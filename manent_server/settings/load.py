"""From manent.yml to settings, or to everything that is wrong with it."""

import socket
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from manent_server.domain import promotion
from manent_server.domain.rules import Rules
from manent_server.domain.secret import Secret
from manent_server.settings import checks, database_url, files, stage
from manent_server.settings.digest import digest
from manent_server.settings.files import Files
from manent_server.settings.findings import Findings
from manent_server.settings.kinds import name_error
from manent_server.settings.node import Scalar, Table
from manent_server.settings.outline import sections
from manent_server.settings.placement import OptionsCheck, Placing
from manent_server.settings.reading import INVALID, Reading
from manent_server.settings.schema import EXTERNAL, TOP
from manent_server.settings.values import Database, Environment, Settings

_NAMED = {
    "environment": ("environments",),
    "target group": ("target_groups",),
    "template": ("templates",),
    "chat": ("chat",),
}


@cache
def _sections() -> Mapping[str, tuple[str, ...]]:
    """For each key name the sections that have it: the same for every file."""
    return sections(TOP.keys)


def load(
    path: Path,
    *,
    environ: Mapping[str, str],
    check_options: OptionsCheck | None = None,
    plugins: Collection[str] | None = None,
    needs_artifact: Collection[str] = (),
) -> Settings:
    """Read a configuration.

    Args:
        path: manent.yml; relative paths inside begin at its folder.
        environ: Where `${NAME}` is looked up.
        check_options: Asked about the merged options of every target.
        plugins: The names of installed plugins; None = not checked.
        needs_artifact: Those among them that can do nothing without an artifact.

    Raises:
        ConfigurationError: With every error found in `errors`.
    """
    findings = Findings()
    read = files.read(path, findings, environ=environ)
    settings: Settings | None = None
    if read.root is not None:
        reading = Reading(
            findings=findings,
            environ=environ,
            folder=path.absolute().parent,
            names=_names(read.root, plugins),
            sections=_sections(),
        )
        placing = Placing(read.root, reading, check_options, frozenset(needs_artifact))
        settings = _settings(path, read, read.root, placing)
    findings.raise_if_any(str(path))
    if settings is None:
        raise AssertionError("nothing was read and nothing is wrong")
    return settings


def external_plugins(path: Path, *, environ: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """`plugins.external` alone, so that plugins can be found before everything is checked.

    Whatever is wrong is left for `load` to say; what cannot be read is not in the answer.
    """
    findings = Findings()
    root = files.read(path, findings, environ=environ).root
    table = root.table("plugins", "external") if root else None
    found = {}
    for name, entry in table.entries.items() if table else ():
        reading = Reading(findings=findings, environ=environ, folder=path.absolute().parent)
        command = EXTERNAL.read(entry.node, reading)
        if command is not INVALID and name_error(name, "external plugin") is None:
            found[name] = command
    return found


def _names(root: Table, plugins: Collection[str] | None) -> dict[str, tuple[str, ...]]:
    tables = {what: root.table(*keys) for what, keys in _NAMED.items()}
    names = {what: tuple(table.entries) if table else () for what, table in tables.items()}
    if plugins is not None:
        external = root.table("plugins", "external")
        names["plugin"] = (*plugins, *(external.entries if external else ()))
    return names


def _settings(path: Path, read: Files, root: Table, placing: Placing) -> Settings | None:
    reading = placing.reading
    values = TOP.read(root, reading)
    applications = placing.applications()
    if values is not INVALID:
        _check_promotions(values["environments"], root, reading)
    executor_id = _executor_id(values, root, reading)
    if values is INVALID or len(reading.findings):
        return None
    for key in ("include", "target_groups", "templates"):
        del values[key]
    values["applications"] = applications
    values["database"] = _database(values["database"], root)
    inheriting = frozenset(
        name for name, found in values["environments"].items() if found["concurrency"] is None
    )
    values["environments"] = _environments(values)
    settings = Settings(
        **{**values, "executor_id": executor_id},
        path=path,
        files=read.paths,
        modified_at=read.modified_at,
        digest="",
        inheriting=inheriting,
        origins=placing.origins,
    )
    return replace(settings, digest=digest(settings))


def _check_promotions(
    environments: Mapping[str, Mapping[str, Any]], root: Table, reading: Reading
) -> None:
    """No environment waits for itself, alone or through others: nothing could ever come there."""
    rules = {name: one["promotion"] for name, one in environments.items()}
    wrong = {
        name: f"{name} proves nothing to itself: leave it out"
        for name, rule in rules.items()
        if rule is not None and name in rule.sources
    } or {
        name: f"no version can ever come here: it waits for itself through {', '.join(sources)}"
        for name, sources in promotion.closed_circles(rules).items()
    }
    for name, words in wrong.items():
        node = root.table("environments", name, "promotion")
        if node is not None:
            reading.refuse(node.get("from") or node, words)


def _database(values: Mapping[str, Any], root: Table) -> Database:
    shown = database_url.without_password(values["url"])
    if shown.startswith("sqlite"):
        section = root.table("database")
        written = section.get("url") if section else None
        shown = written.text if isinstance(written, Scalar) else "sqlite:///manent.db"
    return Database(url=Secret(values["url"]), pool=values["pool"], shown=shown)


def _environments(values: Mapping[str, Any]) -> dict[str, Environment]:
    found = {}
    for name, environment in values["environments"].items():
        kept = {key: value for key, value in environment.items() if key != "defaults"}
        if kept["concurrency"] is None:
            kept["concurrency"] = values["environment_concurrency"]
        rules = Rules(**{key.name: kept.pop(key.name) for key in stage.GATES})
        rules = stage.of_tier(rules, kept["tier"])
        found[name] = Environment(name=name, rules=rules, **kept)
    return found


def _executor_id(values: Any, root: Table, reading: Reading) -> str:
    """The id as given, else the host name, which has to be one too."""
    given = None if values is INVALID else values["executor_id"]
    if given or values is INVALID:
        return given or ""
    host = socket.gethostname()
    try:
        return checks.executor_id(host)
    except ValueError as error:
        place = replace(root.place, line=0)
        message = f"the host name is no executor id ({error}); set executor_id"
        reading.findings.add(place, ("executor_id",), message)
        return ""
