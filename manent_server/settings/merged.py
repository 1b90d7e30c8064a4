"""`check --show`: the merged settings of one placement, each value with where it stands."""

import json
import re
from collections.abc import Iterable, Iterator

from manent_server.domain.errors import Invalid, NotFound
from manent_server.settings.findings import suggestion
from manent_server.settings.kinds import Or
from manent_server.settings.node import Listing, Node, Table
from manent_server.settings.scalars import kind_of
from manent_server.settings.schema import PLACEMENT
from manent_server.settings.structures import SECTION, Key, Section, default_node
from manent_server.settings.values import Origin, Settings

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./@+%=-]*( [A-Za-z0-9_./@+%=-]+)*")
_WIDTH = 60

# Indented line and where its value stands.
Line = tuple[str, str]


def show(loaded: Settings, placement: str) -> str:
    """The merged settings of `APPLICATION/ENVIRONMENT` as YAML with places as comments.

    A target is shown with all its options. Text is printed as written: what a variable holds is
    not shown.

    Raises:
        NotFound: No such application, or it is not in that environment.
    """
    application, _, environment = placement.partition("/")
    origin = loaded.origins.get((application, environment))
    if origin is None:
        raise _not_found(loaded, application, environment)
    waves = loaded.applications[application].environments[environment].waves
    lines = list(_placement(origin, waves))
    width = min(_WIDTH, max(len(text) for text, where in lines if where))
    return "".join(
        f"{text:<{width}}  # {where}\n" if where else f"{text}\n" for text, where in lines
    )


def _placement(origin: Origin, waves: Iterable[Iterable[str]]) -> Iterator[Line]:
    for key in PLACEMENT.keys:
        node = origin.merged.get(key.name)
        if key.name == "targets":
            yield "targets:", ""
            for name, options in origin.targets.items():
                yield from _value(name, options, "  ")
        elif key.name == "waves":
            shown = ", ".join(f"[{', '.join(map(_text, wave))}]" for wave in waves)
            yield f"waves: [{shown}]", _where(node or default_node(key.default))
        elif key.name != "options":
            yield from _key(key, node, "")


def _not_found(loaded: Settings, application: str, environment: str) -> NotFound | Invalid:
    if not environment:
        return Invalid("name APPLICATION/ENVIRONMENT", next="e.g. --show shop/production")
    found = loaded.applications.get(application)
    if found is None:
        hint = suggestion(application, loaded.applications)
        return NotFound(f"there is no application {application[:80]!a}", next=hint)
    hint = suggestion(environment, found.environments)
    return NotFound(f"{application} is in no environment {environment[:80]!a}", next=hint)


def _key(key: Key, node: Node | None, indent: str) -> Iterator[Line]:
    kind = key.kind.kind if isinstance(key.kind, Or) else key.kind
    is_section = isinstance(node, Table) or (node is None and key.default == SECTION)
    if isinstance(kind, Section) and is_section:
        yield f"{indent}{key.name}:", ""
        for inner in kind.keys:
            found = node.get(inner.name) if isinstance(node, Table) else None
            yield from _key(inner, found, indent + "  ")
    else:
        yield from _value(key.name, node or default_node(key.default), indent)


def _value(key: str, node: Node, indent: str) -> Iterator[Line]:
    name = f"{indent}{_text(key)}:"
    if isinstance(node, Table) and node.entries:
        yield name, ""
        for child, entry in node.entries.items():
            yield from _value(child, entry.node, indent + "  ")
    else:
        yield f"{name} {_flow(node)}", _where(node)


def _flow(node: Node) -> str:
    if isinstance(node, Listing):
        return f"[{', '.join(_flow(item) for item in node.items)}]"
    if isinstance(node, Table):
        pairs = (f"{_text(key)}: {_flow(entry.node)}" for key, entry in node.entries.items())
        return "{" + ", ".join(pairs) + "}"
    return _text(node.text) if node.kind == "text" else (node.text or "null")


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and kind_of(text) == "text":
        return text
    return json.dumps(text, ensure_ascii=False)


def _where(node: Node) -> str:
    if not node.place.file:
        return "default"
    return f"{node.place.file}:{node.place.line}"
