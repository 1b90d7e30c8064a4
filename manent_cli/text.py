"""Text from elsewhere, made safe to show: no control character reaches a terminal or a table."""

import re
import unicodedata

# C0 and C1 controls, DEL, and what turns the direction of the text around it.
_UNSAFE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_COLOUR = re.compile("(\x1b\\[[0-9;]*m)")


def clean(text: object) -> str:
    """One line of text; what a terminal would obey is written out, e.g. as backslash x1b."""
    return _UNSAFE.sub(_written_out, str(text))


def clean_line(text: str) -> str:
    """A line of a log for a terminal: colours stay, everything else is as `clean` does."""
    parts = _COLOUR.split(text)
    shown = "".join(part if index % 2 else clean(part) for index, part in enumerate(parts))
    return shown + "\x1b[0m" if len(parts) > 1 else shown


def width(text: str) -> int:
    """The columns the text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def cut(text: str, columns: int) -> str:
    """The beginning of the text that fits into so many columns."""
    while width(text) > columns:
        text = text[:-1]
    return text


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def _written_out(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")
