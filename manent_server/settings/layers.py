"""The merging order, on nodes, so that every value keeps its place."""

from collections.abc import Iterable
from dataclasses import replace

from manent_server.settings.node import Entry, Node, Table

# Keys of a template or an application that are no values of a placement.
_OWN = ("template", "environments")


def of(root: Table, application: str, environment: str, *, template: Table | None) -> list[Table]:
    """The layers of one placement, lowest first; the target's comes later, on its options."""
    own = root.table("applications", application)
    found = (
        root.table("environments", environment, "defaults"),
        _values(template),
        template and template.table("environments", environment),
        _values(own),
        own and own.table("environments", environment),
    )
    return [layer for layer in found if layer is not None]


def environments(own: Table, template: Table | None) -> list[str]:
    """The environments an application or its template names, in the order written."""
    tables = [template and template.table("environments"), own.table("environments")]
    return list(dict.fromkeys(name for table in tables if table for name in table.entries))


def merge(layers: Iterable[Table], *, empty: Table) -> Table:
    """Maps key by key, anything else replaced; a merged map has the place of its last layer."""
    merged = empty
    for layer in layers:
        merged = _merged(merged, layer)
    return merged


def _merged(low: Table, high: Table) -> Table:
    entries = dict(low.entries)
    for key, entry in high.entries.items():
        below = entries.get(key)
        entries[key] = Entry(entry.place, _over(below.node if below else None, entry.node))
    return replace(high, entries=entries)


def _over(low: Node | None, high: Node) -> Node:
    return _merged(low, high) if isinstance(low, Table) and isinstance(high, Table) else high


def _values(layer: Table | None) -> Table | None:
    if layer is None:
        return None
    kept = {key: entry for key, entry in layer.entries.items() if key not in _OWN}
    return replace(layer, entries=kept)
