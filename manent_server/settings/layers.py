"""The merging order, on nodes, so that every value keeps its place."""

from collections.abc import Iterable
from dataclasses import replace

from manent_server.settings.node import Entry, Node, Table

# Keys of a template or an application that are no values of a placement.
_OWN = ("template", "environments")


def of(root: Table, application: str, environment: str) -> list[Table]:
    """The layers of one placement, lowest first; the target's comes later, on its options."""
    own = root.table("applications", application)
    template = _template_of(root, application)
    found = (
        root.table("environments", environment, "defaults"),
        _values(template),
        template and template.table("environments", environment),
        _values(own),
        own and own.table("environments", environment),
    )
    return [layer for layer in found if layer is not None]


def environments(root: Table, application: str) -> list[str]:
    """The environments an application or its template names, in the order written."""
    own = root.table("applications", application, "environments")
    template = _template_of(root, application)
    inherited = template and template.table("environments")
    names = [*(inherited.entries if inherited else ()), *(own.entries if own else ())]
    return list(dict.fromkeys(names))


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


def _template_of(root: Table, application: str) -> Table | None:
    own = root.table("applications", application)
    name = own.get("template") if own else None
    text = getattr(name, "text", None)
    return root.table("templates", text) if text else None


def _values(layer: Table | None) -> Table | None:
    if layer is None:
        return None
    kept = {key: entry for key, entry in layer.entries.items() if key not in _OWN}
    return replace(layer, entries=kept)
