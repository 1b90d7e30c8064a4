"""The part of JSON Schema that describes an external plugin's options.

Known words: type, properties, required, additionalProperties, items, enum, const, minimum,
maximum, minLength, maxLength, pattern, minItems, maxItems, writeOnly (a secret, of which only a
reference is written). Others are read past.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

Finding = tuple[str, str]
IN_CLEAR: Final = (
    "is kept secret by the plugin and would be stored with every deploy; write "
    "secret://env/NAME or secret://file/PATH"
)
_WRITE_ONLY: Final = "writeOnly"
_REFERENCES: Final = ("secret://", "config://")

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


def check(schema: Any, value: Any, path: str = "") -> Iterator[Finding]:
    """Every place where `value` is not what `schema` allows, as (path, message)."""
    if not isinstance(schema, Mapping):
        return
    kinds = schema.get("type")
    if kinds is not None and not _is_of(kinds, value):
        yield path, f"must be {_named(kinds)}"
        return
    for word, rule in _RULES.items():
        if word in schema and not rule(schema[word], value):
            told = f"must have {word} {schema[word]!r}"
            yield path, IN_CLEAR if word == _WRITE_ONLY else told
    if isinstance(value, dict):
        yield from _members(schema, value, path)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from check(schema.get("items"), item, _below(path, str(index)))


def is_in_clear(value: Any) -> bool:
    """Whether a secret, or one among several, is written down itself and not by a reference."""
    if isinstance(value, dict | list):
        return any(map(is_in_clear, value.values() if isinstance(value, dict) else value))
    return value not in (None, "") and not str(value).startswith(_REFERENCES)


def unknown_key(key: str, known: Collection[str]) -> str:
    """The message for a key nobody knows, with the nearest one that exists."""
    return f"unknown key{hint(key, known)}"


def hint(name: str, known: Collection[str]) -> str:
    """`; nearest is ...`, when something known is near."""
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; nearest is {near[0]}" if near else ""


def _members(schema: Mapping[str, Any], value: dict[str, Any], path: str) -> Iterator[Finding]:
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    for key in schema.get("required") or ():
        if key not in value:
            yield _below(path, key), "is required"
    for key, item in value.items():
        if key not in properties and others is False:
            yield _below(path, key), unknown_key(key, properties)
        else:
            yield from check(properties.get(key, others), item, _below(path, key))


def _is_of(kinds: Any, value: Any) -> bool:
    names = [kinds] if isinstance(kinds, str) else list(kinds)
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, _TYPES.get(name, (object,))) for name in names)


def _named(kinds: Any) -> str:
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _number(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda limit, value: not isinstance(value, int | float) or test(limit, value)


def _text(test: Callable[[Any, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda limit, value: not isinstance(value, str) or test(limit, value)


def _list(test: Callable[[Any, list[Any]], bool]) -> Callable[[Any, Any], bool]:
    return lambda limit, value: not isinstance(value, list) or test(limit, value)


_RULES: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "enum": lambda allowed, value: value in allowed,
    "const": lambda allowed, value: bool(value == allowed),
    "minimum": _number(lambda limit, value: bool(value >= limit)),
    "maximum": _number(lambda limit, value: bool(value <= limit)),
    "minLength": _text(lambda limit, value: len(value) >= limit),
    "maxLength": _text(lambda limit, value: len(value) <= limit),
    "pattern": _text(lambda pattern, value: re.search(pattern, value) is not None),
    "minItems": _list(lambda limit, value: len(value) >= limit),
    "maxItems": _list(lambda limit, value: len(value) <= limit),
    _WRITE_ONLY: lambda is_secret, value: is_secret is not True or not is_in_clear(value),
}
