"""JSON values as YAML: enough of it to write, none of it to read."""

import json
import re
from collections.abc import Iterator
from typing import Any

# Texts that no YAML version takes for anything but a text may go without quotes.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*", re.ASCII)
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def dump(value: Any) -> str:
    """The value as block style YAML, ending in a line break."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, one in value.items():
            yield from _entry(f"{indent}{_scalar(str(name))}:", one, indent + "  ")
    elif isinstance(value, list) and value:
        for one in value:
            yield from _item(one, indent)
    else:
        yield indent + _scalar(value)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield head
        yield from _lines(value, indent)
    else:
        yield f"{head} {_scalar(value)}"


def _item(value: Any, indent: str) -> Iterator[str]:
    lines = list(_lines(value, indent + "  "))
    yield f"{indent}- {lines[0][len(indent) + 2 :]}"
    yield from lines[1:]


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    written = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and "." not in written:
        return written.replace("e", ".0e")  # readers of YAML 1.1 take 1e+16 for a text
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match.group()):04x}", written)
