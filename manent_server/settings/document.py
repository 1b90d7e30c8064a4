"""Bytes of one YAML file to nodes: bounded, nothing constructed, every place kept."""

import re
from collections.abc import Iterator

import yaml

from manent_server.settings.findings import Findings, escaped
from manent_server.settings.node import Entry, Listing, Node, Path, Place, Scalar, Table
from manent_server.settings.scalars import kind_of

MAX_BYTES = 1024 * 1024
MAX_NODES = 100_000
MAX_DEPTH = 32

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_TEXT_TAGS = {"tag:yaml.org,2002:str", "!"}
_COLLECTION_TAGS = {None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


class _Unreadable(Exception):
    """The rest of this file means nothing."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class _Events(yaml.SafeLoader):
    """PyYAML's reader, scanner and parser; no composer or constructor of it is ever called."""


def parse(data: bytes, *, file: str, findings: Findings) -> Table | None:
    """The file's top map; None (and a finding) if it cannot be read."""
    text = ""
    try:
        text = _text(data)
        return _Composer(text, file, findings).document()
    except _Unreadable as error:
        findings.add(Place(file, error.line), (), str(error))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        message = f"not YAML: {error.problem or error.context}{_hint(text, line)}"
        findings.add(Place(file, line), (), message)
    except yaml.YAMLError:
        line = _line_of_unprintable(data)
        findings.add(Place(file, line), (), "holds a character that YAML does not allow")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # PyYAML lets a few through, e.g. chr() of an escape beyond Unicode.
        findings.add(Place(file, 1), (), "not YAML: an escape or a directive cannot be read")
    return None


def _text(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise _Unreadable(1, f"is larger than {MAX_BYTES} bytes; split it with include")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _Unreadable(line, "is not UTF-8 text") from None


def _hint(text: str, line: int) -> str:
    """What often is the reason in such a line."""
    has_variable = "${" in "".join(text.splitlines()[line - 1 : line])
    return "; inside {...} and [...] put ${NAME} in quotes" if has_variable else ""


def _line_of_unprintable(data: bytes) -> int:
    text = data.decode("utf-8-sig", "replace")
    found = yaml.reader.Reader.NON_PRINTABLE.search(text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


class _Composer:
    def __init__(self, text: str, file: str, findings: Findings) -> None:
        self._events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=_Events))
        self._file = file
        self._findings = findings
        self._anchors: dict[str, Node] = {}
        self._nodes = 0

    def document(self) -> Table:
        next(self._events)
        start = next(self._events)
        if isinstance(start, yaml.StreamEndEvent):
            return Table(Place(self._file, 1), (), {})
        if getattr(start, "version", None) not in {None, (1, 2)}:
            raise _Unreadable(1, "asks for another YAML than 1.2; remove the %YAML line")
        root = self._node(next(self._events), ())
        next(self._events)
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise _Unreadable(_line(after), "holds a second document; one file is one document")
        if isinstance(root, Table):
            return root
        if isinstance(root, Scalar) and root.kind == "null":
            return Table(root.place, (), {})
        raise _Unreadable(root.place.line, "must be a map of settings")

    def _node(self, event: yaml.Event, path: Path) -> Node:
        self._spend(event, len(path))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        node = self._fresh(event, path)
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            self._anchors[anchor] = node
        return node

    def _fresh(self, event: yaml.Event, path: Path) -> Node:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path)
        tag = getattr(event, "tag", None)
        if tag not in _COLLECTION_TAGS:
            raise _Unreadable(_line(event), f"has a tag, {escaped(str(tag))}: remove it")
        if isinstance(event, yaml.SequenceStartEvent):
            return self._listing(event, path)
        return self._table(event, path)

    def _scalar(self, event: yaml.ScalarEvent, path: Path) -> Scalar:
        if _UNSTORABLE.search(event.value):
            raise _Unreadable(_line(event), "holds a NUL or half a character")
        place = Place(self._file, _line(event))
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            raise _Unreadable(place.line, f"has a tag, {escaped(event.tag)}: remove it")
        is_bare = event.style is None and event.tag is None
        return Scalar(place, path, event.value, kind_of(event.value) if is_bare else "text")

    def _listing(self, start: yaml.Event, path: Path) -> Listing:
        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*path, len(items))))
        return Listing(Place(self._file, _line(start)), path, tuple(items))

    def _table(self, start: yaml.Event, path: Path) -> Table:
        entries: dict[str, Entry] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, path)
            place = Place(self._file, _line(event))
            node = self._node(next(self._events), (*path, key))
            if key in entries:
                first = entries[key].place.line
                message = f"is written twice; first in line {first}"
                self._findings.add(place, (*path, key), message)
            else:
                entries[key] = Entry(place, node)
        return Table(Place(self._file, _line(start)), path, entries)

    def _key(self, event: yaml.Event, path: Path) -> str:
        if isinstance(event, yaml.AliasEvent) or not isinstance(event, yaml.ScalarEvent):
            raise _Unreadable(_line(event), "a key must be text")
        self._spend(event, len(path))
        key = self._scalar(event, path)
        if key.text == "<<" and event.style is None:
            message = "YAML 1.2 has no merge key <<; use a template"
            self._findings.add(key.place, (*path, key.text), message)
        elif key.kind != "text":
            message = f"a key must be text, {escaped(key.text)} is none: quote it"
            self._findings.add(key.place, (*path, key.text), message)
        return key.text

    def _alias(self, event: yaml.AliasEvent, path: Path) -> Node:
        name = event.anchor or ""
        found = self._anchors.get(name)
        if found is None:
            message = f"alias *{name[:40]} has no finished anchor before it"
            raise _Unreadable(_line(event), message)
        return self._copy(found, path, event)

    def _copy(self, node: Node, path: Path, event: yaml.Event) -> Node:
        """The anchored node as if written here; counted, so that aliases cannot multiply."""
        self._spend(event, len(path))
        if isinstance(node, Scalar):
            return Scalar(node.place, path, node.text, node.kind)
        if isinstance(node, Listing):
            items = (self._copy(item, (*path, i), event) for i, item in enumerate(node.items))
            return Listing(node.place, path, tuple(items))
        entries = {
            key: Entry(entry.place, self._copy(entry.node, (*path, key), event))
            for key, entry in node.entries.items()
        }
        return Table(node.place, path, entries)

    def _spend(self, event: yaml.Event, depth: int) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _Unreadable(
                _line(event), f"holds more than {MAX_NODES} keys and values, aliases counted"
            )
        if depth > MAX_DEPTH:
            raise _Unreadable(_line(event), f"is nested deeper than {MAX_DEPTH}")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1
