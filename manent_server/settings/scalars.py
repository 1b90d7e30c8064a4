"""YAML 1.2 core scalars: what a bare word in the file means.

`no`, `12:30`, `2027-01-02` and `1_000` are text. A number with a leading zero is neither the
number nor the text somebody meant for sure, so it is marked and refused where it is used.
"""

import re

from manent_server.settings.node import Scalar, ScalarKind

_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_LONGEST_NUMBER = 18
_LONGEST_SHOWN = 40

Plain = str | int | float | bool | None


def kind_of(text: str) -> ScalarKind:
    """The type of an unquoted scalar."""
    if text in _NULLS:
        return "null"
    if text in _BOOLS:
        return "bool"
    if _LEADING_ZERO.fullmatch(text):
        return "leading zero"
    if _INT.fullmatch(text):
        return "int"
    return "float" if _FLOAT.fullmatch(text) else "text"


def whole(text: str) -> int | None:
    """The integer an `int` scalar stands for; None for one too long to be meant as a number."""
    if len(text) > _LONGEST_NUMBER:
        return None
    return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)


def number(text: str) -> float:
    """The number a `float` scalar stands for (`.inf` and `.nan` too)."""
    return float(text.replace(".", "", 1) if text.lstrip("+-")[1:4].isalpha() else text)


def exact(scalar: Scalar) -> Plain:
    """The value of a scalar in a place without a type, if reading it loses nothing.

    Raises:
        ValueError: The number would not be printed as it is written (`1.10`, `72225e2`, `012`).
    """
    if scalar.kind == "null":
        return None
    if scalar.kind == "bool":
        return _BOOLS[scalar.text]
    if scalar.kind == "text":
        return scalar.text
    value = _number(scalar)
    if value is None or str(value) != scalar.text:
        raise ValueError(f"{shown(scalar)} is not kept as written when read as a number: quote it")
    return value


def _number(scalar: Scalar) -> int | float | None:
    if scalar.kind == "leading zero":
        return None
    return whole(scalar.text) if scalar.kind == "int" else number(scalar.text)


def shown(scalar: Scalar) -> str:
    """The scalar as written, for an error message."""
    text = scalar.text.encode("unicode_escape").decode("ascii")
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."
