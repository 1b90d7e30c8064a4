"""`targets`: a map, the name of a target group, or a list of both."""

from collections.abc import Mapping
from dataclasses import dataclass

from manent_server.settings.kinds import Name
from manent_server.settings.node import Listing, Node, Scalar, Table
from manent_server.settings.reading import INVALID, Invalid, Reading
from manent_server.settings.structures import Free, TableOf

TARGET_MAP = TableOf(Free(), "target")


@dataclass(frozen=True)
class Targets:
    """The value of `targets` in one layer; its nodes are what is used later."""

    words: str = "map of targets to plugin options, name of a target group, or a list of both"

    def read(self, node: Node, reading: Reading) -> Node | Invalid:
        """The node itself once it has the right shape and its groups exist."""
        items = node.items if isinstance(node, Listing) else (node,)
        is_right = [_is_right(item, reading) for item in items]
        return node if all(is_right) else INVALID


def _is_right(node: Node, reading: Reading) -> bool:
    if isinstance(node, Table):
        return TARGET_MAP.read(node, reading) is not INVALID
    if isinstance(node, Scalar) and node.kind == "text":
        return Name("target group").read(node, reading) is not INVALID
    reading.refuse(node, "must be a map of targets, the name of a target group, or a list of both")
    return False


def members(node: Node, groups: Mapping[str, Node], reading: Reading) -> Mapping[str, Table]:
    """The targets meant, in the order written, each with its own options."""
    found: dict[str, Table] = {}
    for item in node.items if isinstance(node, Listing) else (node,):
        for name, options in _members(item, groups, reading).items():
            if name in found:
                first = found[name].place
                message = f"target {name} is in targets twice; first at {first.file}:{first.line}"
                reading.refuse(item, message)
            found[name] = options
    return found


def _members(node: Node, groups: Mapping[str, Node], reading: Reading) -> Mapping[str, Table]:
    group: Node | None = node
    if isinstance(node, Scalar):
        name = Name("target group").read(node, reading)
        group = None if name is INVALID else groups.get(name)
    if not isinstance(group, Table):
        return {}
    return {
        name: entry.node for name, entry in group.entries.items() if isinstance(entry.node, Table)
    }
