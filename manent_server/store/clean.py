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
    return _UNSTORABLE.sub(_REPLACEMENT, value)
