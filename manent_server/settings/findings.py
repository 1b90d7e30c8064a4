"""Everything wrong with a configuration, collected in one run."""

import re
from collections.abc import Iterable
from typing import Any

from manent_server.domain.errors import ConfigurationError
from manent_server.domain.names import nearest
from manent_server.settings.node import Node, Path, Place

_LONGEST = 80
_SIMPLE = re.compile(r"[A-Za-z0-9_-]+")


class Findings:
    """The errors found so far; the same one found on several ways is kept once."""

    def __init__(self) -> None:
        self._errors: dict[tuple[str, int, str, str], dict[str, Any]] = {}

    def add(self, place: Place, path: Path, message: str) -> None:
        """Note one error."""
        where = yaml_path(path)
        self._errors.setdefault(
            (place.file, place.line, where, message),
            {
                "file": place.file,
                "line": place.line,
                "path": where,
                "layer": layer(path),
                "message": message,
            },
        )

    def refuse(self, node: Node, message: str) -> None:
        """Note that this value cannot be used."""
        self.add(node.place, node.path, message)

    def __len__(self) -> int:
        return len(self._errors)

    def as_list(self) -> list[dict[str, Any]]:
        """All errors, file by file and line by line."""
        return [error for _, error in sorted(self._errors.items(), key=lambda item: item[0][:3])]

    def raise_if_any(self, file: str) -> None:
        """Refuse the configuration if anything was found.

        Raises:
            ConfigurationError: With all findings in `errors`.
        """
        errors = self.as_list()
        if not errors:
            return
        first = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        at = f"{first['file']}:{first['line']}" if first["line"] else first["file"]
        where = f"{first['path']}: " if first["path"] else ""
        raise ConfigurationError(
            f"{at}: {where}{first['message']}{more}",
            next=f"correct {file} and run `manent-server check`",
            errors=errors,
        )


def suggestion(text: str, known: Iterable[str]) -> str:
    """The nearest of `known`, or all of them when none is near."""
    names = sorted(set(known))
    like = nearest(text[:200], names)
    if like:
        return f"did you mean {like}?"
    return f"known here: {', '.join(names[:30])}" if names else "nothing is known here"


def escaped(text: str) -> str:
    """A word of the file in quotes, short and printable."""
    shown = text.encode("unicode_escape").decode("ascii")
    return f"'{shown}'" if len(shown) <= _LONGEST else f"'{shown[: _LONGEST - 3]}...'"


def yaml_path(path: Path) -> str:
    """`applications.shop.waves[1]`; keys that are no simple words stand in quotes."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _SIMPLE.fullmatch(part) else escaped(part))
    return text


def layer(path: Path) -> str:
    """The layer of the merging order that a path of the file belongs to."""
    match path:
        case ("environments", str(_), "defaults", *_):
            return yaml_path(path[:3])
        case ("target_groups", str(_), str(_), *_):
            return yaml_path(path[:3])
        case ("templates" | "applications", str(_), *rest):
            return yaml_path(path[: 2 + _layer_length(rest)])
    return "top level"


def _layer_length(rest: list[str | int]) -> int:
    """How much of a path inside a template or application names the layer."""
    length = 0
    if len(rest) > 1 and rest[0] == "environments":
        length = 2
    match rest[length:]:
        case ("targets", str(_), *_):
            return length + 2
        case ("targets", int(_), str(_), *_):
            return length + 3
    return length
