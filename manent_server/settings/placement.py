"""Applications placed in environments: layers merged, targets and waves resolved."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from manent_server.settings import layers, target, wave
from manent_server.settings.kinds import Name, Or
from manent_server.settings.node import Listing, Node, Scalar, Table
from manent_server.settings.reading import INVALID, Reading
from manent_server.settings.schema import PLACEMENT
from manent_server.settings.structures import Free
from manent_server.settings.values import Application, Origin, Placement

OptionsCheck = Callable[[str, Mapping[str, Any]], Sequence[tuple[str, str]]]

# The product of applications, environments, targets and options, which grows unseen.
_MOST_VALUES = 1_000_000


@dataclass
class Placing:
    """Reads every placement of a configuration."""

    root: Table
    reading: Reading
    check_options: OptionsCheck | None
    needs_artifact: frozenset[str] = frozenset()
    origins: dict[tuple[str, str], Origin] = field(default_factory=dict)
    _values: int = 0

    def applications(self) -> dict[str, Application]:
        """All applications, in the order written."""
        found = {}
        table = self.root.table("applications")
        for name in table.entries if table else ():
            own = self.root.table("applications", name)
            if own is not None:
                found[name] = self._application(name, own)
        return found

    def _application(self, name: str, own: Table) -> Application:
        placements = {}
        known = self.reading.names.get("environment", ())
        template = self._template(own)
        environments = layers.environments(own, template)
        for environment in environments:
            if environment in known:
                stack = layers.of(self.root, name, environment, template=template)
                placement = self._placement(name, environment, own, stack)
                if placement is not None:
                    placements[environment] = placement
        if not environments:
            self.reading.refuse(own, "is in no environment: name at least one under environments")
        return Application(name=name, environments=placements)

    def _template(self, own: Table) -> Table | None:
        node = own.get("template")
        if node is None:
            return None
        name = Or(Name("template")).read(node, self.reading)
        return self.root.table("templates", name) if isinstance(name, str) else None

    def _placement(
        self, application: str, environment: str, own: Table, stack: Sequence[Table]
    ) -> Placement | None:
        place = own.table("environments", environment) or own
        merged = replace(
            layers.merge(stack, empty=replace(place, entries={})),
            place=place.place,
            path=("applications", application, "environments", environment),
        )
        values = PLACEMENT.read(merged, self.reading)
        if values is INVALID:
            return None
        if values["artifact"] is None and values["plugin"] in self.needs_artifact:
            message = f"is missing: plugin {values['plugin']} needs one; set artifact.url"
            self.reading.findings.add(merged.place, (*merged.path, "artifact"), message)
        targets = self._targets(merged)
        self.origins[application, environment] = Origin(merged=merged, targets=targets)
        values["waves"] = self._waves(merged, values["waves"], list(targets))
        values["targets"] = self._options(merged, values["plugin"], targets)
        del values["options"]
        return Placement(**values)

    def _targets(self, merged: Table) -> dict[str, Table]:
        """The targets, each with the options of all layers."""
        node = merged.entries["targets"].node
        groups = self.root.table("target_groups")
        by_name = {name: entry.node for name, entry in groups.entries.items()} if groups else {}
        found = target.members(node, by_name, self.reading)
        if not found:
            self.reading.refuse(node, "names no target")
        common = [table] if (table := merged.table("options")) else []
        return {
            name: layers.merge([*common, own], empty=replace(own, entries={}))
            for name, own in found.items()
        }

    def _waves(
        self, merged: Table, waves: Sequence[wave.Wave] | None, targets: list[str]
    ) -> tuple[tuple[str, ...], ...]:
        try:
            return wave.resolve(waves, targets)
        except wave.WaveError as error:
            node = merged.entries["waves"].node
            if error.index is not None and isinstance(node, Listing):
                node = node.items[error.index]
            self.reading.refuse(node, str(error))
            return ()

    def _options(
        self, merged: Table, plugin: str, targets: Mapping[str, Table]
    ) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name, node in targets.items():
            self._values += _size(node)
            if self._values > _MOST_VALUES:
                message = f"the options of all targets together are over {_MOST_VALUES} values"
                self.reading.refuse(merged, message)
                return found
            options = Free().read(node, self.reading)
            if options is not INVALID:
                found[name] = options
                self._check_options(plugin, node, options)
        return found

    def _check_options(self, plugin: str, node: Table, options: Mapping[str, Any]) -> None:
        known = self.reading.names.get("plugin")
        if self.check_options is None or (known is not None and plugin not in known):
            return
        for path, message in self.check_options(plugin, options):
            found = option_node(node, path)
            hint = ""
            if isinstance(found, Scalar) and found.kind != "text":
                hint = "; if text is meant, quote it"
            what = f"option {path} of plugin {plugin}: " if path else ""
            self.reading.refuse(found, f"{what}{message}{hint}")


def option_node(node: Node, path: str) -> Node:
    """The node at a dotted path such as `health.url` or `deploy[0]`, or the last one on the way."""
    rest = path
    while rest:
        step = _step(node, rest)
        if step is None:
            break
        node, rest = step
    return node


def _step(node: Node, path: str) -> tuple[Node, str] | None:
    path = path.lstrip(".")
    if isinstance(node, Listing):
        found = re.match(r"\[?([0-9]{1,6})\]?", path)
        if found and int(found[1]) < len(node.items):
            return node.items[int(found[1])], path[found.end() :]
    if isinstance(node, Table):
        for key in sorted(node.entries, key=len, reverse=True):
            if path == key or path.startswith((f"{key}.", f"{key}[")):
                return node.entries[key].node, path[len(key) :]
    return None


def _size(node: Node) -> int:
    if isinstance(node, Table):
        return 1 + sum(_size(entry.node) for entry in node.entries.values())
    return 1 + sum(map(_size, node.items)) if isinstance(node, Listing) else 1
