"""Text that every database takes: no NUL, no half of a surrogate pair."""

import re
from collections.abc import Mapping
from typing import Any, Final

_REPLACEMENT: Final = "\ufffd"
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def clean(value: Any) -> Any:
    """`value` with every character no database stores replaced by U+FFFD.

    Goes through lists, tuples and mappings (keys too); other values pass unchanged.
    """
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return {clean(key): clean(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean(inner) for inner in value]
    return value


def text(value: str) -> str:
    """One text, cleaned."""
    # Two looks in C at what is nearly always in order are much cheaper than one search.
    if "\0" not in value and _is_encodable(value):
        return value
    return _UNSTORABLE.sub(_REPLACEMENT, value)


def _is_encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
