"""`{application}`, `{environment}`, `{target}` and `{version}` in texts filled at prepare."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

CONFIG_PREFIX = "config://"
"""How a reference to a key of the environment's configuration begins."""
PLACEHOLDERS = ("application", "environment", "target", "version")
_BRACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|\{")


def fill(text: str, *, application: str, environment: str, target: str, version: str) -> str:
    """The text with its placeholders filled in; `{{` is `{` and `}}` is `}`.

    Raises:
        ValueError: A placeholder that does not exist, or an open brace.
    """
    values = {
        "application": application,
        "environment": environment,
        "target": target,
        "version": version,
    }
    return _BRACE.sub(lambda match: _filled(match, values), text)


def check(text: str) -> str | None:
    """What is wrong with the placeholders of a text, or None."""
    try:
        fill(text, application="", environment="", target="", version="")
    except ValueError as error:
        return str(error)
    return None


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text in options with its path, as plugins name those they mark as templates."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item, path)
    elif isinstance(value, str):
        yield path, value


def is_template(path: str, templates: Collection[str]) -> bool:
    """Whether the option at this path is marked as a template, itself or as part of a map."""
    return any(path == marked or path.startswith(f"{marked}.") for marked in templates)


def _filled(match: re.Match[str], values: dict[str, str]) -> str:
    if match[0] in {"{{", "}}"}:
        return match[0][0]
    name = match[1]
    if name in values:
        return values[name]
    known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
    found = f"{{{name[:40]}}} is no placeholder" if name else "an open { is no placeholder"
    raise ValueError(f"{found}; known are {known}, and {{{{ for a brace")
