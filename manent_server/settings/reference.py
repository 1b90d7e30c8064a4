"""The reference page of manent.yml, printed from the declarations the loader reads by."""

from collections.abc import Iterable, Iterator

from manent_server.settings.document import MAX_BYTES, MAX_DEPTH, MAX_NODES
from manent_server.settings.outline import Declared, declared
from manent_server.settings.schema import PLACEMENT, RELOADED, TOP
from manent_server.settings.structures import REQUIRED, SECTION, Key, Layer

_HEAD = f"""# manent.yml

`manent-server check` reads the file and lists everything wrong with it, each error with file, line,
path, layer and the nearest valid key. A key that is not on this page is refused.

## Values

- The file is YAML 1.2 (core schema): `no`, `on`, `12:30` and `2027-01-02` are text. A number where
  text is wanted, a number with a leading zero, and a number in plugin options that would not be
  printed as it is written (`1.10`, `72225e2`) are refused: quote it.
- A key written twice in one map, a tag and a second document are refused. A file has at most
  {MAX_BYTES} bytes and {MAX_NODES} keys and values, aliases counted where they are used, nested
  at most {MAX_DEPTH} deep.
- **Durations**: `15s`, `1m`, `1h30m`, `2160h`; `d` is 24 hours. **Sizes**: `16KiB`, `50MiB`.
- `${{NAME}}` is filled in from the environment; a name that is not set is an error, `$$` is one `$`
  and any other `$` is itself. In `database.url` the value goes into its part of the URL whole, so a
  password may hold any character.
- Names are `[a-z0-9][a-z0-9._-]{{0,62}}`. Top-level keys that begin with `x-` are ignored.
- `include` adds files, pattern by pattern in the order of their names. A name defined in two files
  is refused, and an included file includes no others.
- A relative path begins at the folder of manent.yml.
"""

_MERGING = """## Applications in environments

An application is placed in each environment that its own `environments` or those of its template
name. Its settings there are merged from these layers, later ones win:

1. `environments.<environment>.defaults`
2. `templates.<template>`
3. `templates.<template>.environments.<environment>`
4. `applications.<application>`
5. `applications.<application>.environments.<environment>`
6. the target's own value, on `options`

Maps merge key by key; lists and single values replace. Each layer may hold any of these keys:
`manent-server check --show APPLICATION/ENVIRONMENT` prints the result with file and line of every
value.
"""

_TAIL = """### Targets and waves

`targets` is a map from target names to plugin options, the name of a target group, or a list of
both. A wave is a target's name, a list of names, a count, a percentage of all targets (rounded up)
or `rest`. Counts, percentages and `rest` take targets in the order written and never one that is
named. Every target is in exactly one wave; a wave that a percentage or `rest` leaves empty is
dropped.
"""


def render() -> str:
    """The page, as Markdown."""
    simple: list[tuple[Key, list[Declared]]] = []
    sections: list[tuple[Key, list[Declared]]] = []
    for key in TOP.keys:
        inside = list(_own(declared((key,))))
        (sections if len(inside) > 1 else simple).append((key, inside))
    text = _HEAD + "\n## Top level\n\n" + _table(item for _, inside in simple for item in inside)
    for key, inside in sections:
        text += f"\n## {key.name}\n\n{_sentence(key)}\n\n" + _table(inside[1:])
    text += "\n" + _MERGING + "\n" + _table(declared(PLACEMENT.keys)) + "\n" + _TAIL
    return text + "\n## Reload\n\n" + _reload()


def _own(items: Iterable[Declared]) -> Iterator[Declared]:
    """Without the keys of the layers, which have a table of their own."""
    layers: list[tuple[str, ...]] = []
    own = {"template", "environments"}
    for item in items:
        inside = [layer for layer in layers if item.path[: len(layer)] == layer]
        if not inside or item.path[-1] in own:
            yield item
        if isinstance(_innermost(item.key), Layer):
            layers.append(item.path)


def _innermost(key: Key) -> object:
    kind: object = key.kind
    while not isinstance(kind, Layer) and hasattr(kind, "kind"):
        kind = kind.kind
    return kind


def _table(items: Iterable[Declared]) -> str:
    rows = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for item in items:
        path = ".".join(item.path).replace("<", "&lt;").replace(">", "&gt;")
        rows.append(f"| {path} | {item.key.kind.words} | {_default(item.key)} | {_meaning(item)} |")
    return "\n".join(rows) + "\n"


def _default(key: Key) -> str:
    if key.default == REQUIRED:
        return "required"
    return "" if key.default == SECTION else f"`{key.default}`"


def _meaning(item: Declared) -> str:
    meaning = item.key.meaning.replace("<", "&lt;").replace(">", "&gt;")
    layer = isinstance(_innermost(item.key), Layer)
    return f"{meaning} ([keys of a layer](#applications-in-environments))" if layer else meaning


def _sentence(key: Key) -> str:
    return key.meaning[0].upper() + key.meaning[1:] + "."


def _reload() -> str:
    kept = ", ".join(f"`{name}`" for name in RELOADED)
    return (
        f"SIGHUP in one process, or `manent-server admin reload` in every one, takes up {kept}.\n"
        "Every other key needs a restart, and the log says so. A file with an error changes "
        "nothing.\n"
    )
