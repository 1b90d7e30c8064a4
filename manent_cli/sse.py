"""Server-sent events: lines of bytes in, events out."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Event(NamedTuple):
    """One event: its name, its data and the id to resume from."""

    name: str
    data: str
    id: str | None


def events(lines: Iterable[bytes]) -> Iterator[Event]:
    """Cut a stream into events; one that was cut off before its blank line is dropped."""
    fields: dict[str, str] = {}
    data: list[str] = []
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not line:
            if data:
                yield Event(fields.get("event", "message"), "\n".join(data), fields.get("id"))
            fields, data = {}, []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name:
            fields[name] = value
