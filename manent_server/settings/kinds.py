"""Types of single values."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from manent_server.domain import duration, names, size
from manent_server.domain.errors import NameInvalid
from manent_server.settings import database_url
from manent_server.settings.expand import expand
from manent_server.settings.node import Listing, Node, Scalar
from manent_server.settings.reading import INVALID, Invalid, Kind, Reading
from manent_server.settings.scalars import number, shown, whole

_T = TypeVar("_T")


@dataclass(frozen=True)
class Text:
    """Text that may have to pass a check."""

    words: str = "text"
    check: Callable[[str], str] = str

    def read(self, node: Node, reading: Reading) -> str | Invalid:
        """The text as `check` gives it back."""
        text = reading.text(node)
        if text is INVALID:
            return INVALID
        try:
            return self.check(text)
        except ValueError as error:
            return reading.refuse(node, str(error))


@dataclass(frozen=True)
class Name:
    """A name in its one spelling, of something that exists where that is known."""

    what: str

    @property
    def words(self) -> str:
        """E.g. `name of a template`."""
        return f"name of a {self.what}"

    def read(self, node: Node, reading: Reading) -> str | Invalid:
        """The name."""
        text = reading.text(node)
        if text is INVALID:
            return INVALID
        wrong = name_error(text, self.what)
        written = node.text if isinstance(node, Scalar) else text
        if wrong:
            is_expanded = text != written
            hidden = f"{_described(node)} holds no valid {self.what}"
            return reading.refuse(node, hidden if is_expanded else wrong)
        return reading.reference(node, self.what, text, written=written)


def name_error(text: str, what: str) -> str | None:
    """Why this is no name, or no name as it must be written here."""
    if (text, what) == ("rest", "target"):
        return "'rest' is a word of waves, so no target can have it as its name"
    try:
        form = names.name(text, what)
    except NameInvalid as error:
        return f"{error.detail}: {error.next}"
    return None if form == text else f"write this {what} as {form!r}"


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    least: int = 1

    @property
    def words(self) -> str:
        """With its least value."""
        return f"whole number, {self.least} or more"

    def read(self, node: Node, reading: Reading) -> int | Invalid:
        """The number; text only where it came from a variable."""
        digits = _digits(node, reading)
        if digits is INVALID:
            return INVALID
        value = whole(digits) if digits is not None else None
        if value is None or value < self.least:
            return reading.refuse(node, f"must be a {self.words}, not {_described(node)}")
        return value


def _digits(node: Node, reading: Reading) -> str | Invalid | None:
    """The digits of an `int` scalar, or of a text that is one variable standing for digits."""
    if not isinstance(node, Scalar):
        return None
    if node.kind == "int":
        return node.text
    if node.kind != "text" or "$" not in node.text:
        return None
    try:
        text = expand(node.text, reading.environ)
    except ValueError as error:
        return reading.refuse(node, str(error))
    is_plain = text.isascii() and text.isdigit() and str(int(text[:18])) == text
    return text if is_plain else None


@dataclass(frozen=True)
class Number:
    """A number, whole or not."""

    least: float

    @property
    def words(self) -> str:
        """With its least value."""
        return f"number, {self.least:g} or more"

    def read(self, node: Node, reading: Reading) -> float | Invalid:
        """The number; never infinite."""
        value: float | None = None
        if isinstance(node, Scalar) and node.kind in {"int", "float"}:
            found = whole(node.text) if node.kind == "int" else number(node.text)
            value = None if found is None else float(found)
        if value is None or not self.least <= value < float("inf"):
            return reading.refuse(node, f"must be a {self.words}, not {_described(node)}")
        return value


@dataclass(frozen=True)
class Duration:
    """A duration; `zero` says what 0s means where it is allowed."""

    zero: str = ""

    @property
    def words(self) -> str:
        """With the meaning of 0s."""
        return f"duration, 0s = {self.zero}" if self.zero else "duration"

    def read(self, node: Node, reading: Reading) -> timedelta | Invalid:
        """The duration."""
        value = _measured(node, reading, duration.parse, "a duration such as 15s or 1h30m")
        if value == timedelta(0) and not self.zero:
            return reading.refuse(node, "must be longer than 0s")
        return value


@dataclass(frozen=True)
class Size:
    """A size in bytes, more than nothing."""

    words: str = "size"

    def read(self, node: Node, reading: Reading) -> int | Invalid:
        """The bytes."""
        value = _measured(node, reading, size.parse, "a size such as 16KiB")
        if value == 0:
            return reading.refuse(node, "must be more than 0B")
        return value


def _measured(
    node: Node, reading: Reading, parse: Callable[[str], _T], wanted: str
) -> _T | Invalid:
    if not isinstance(node, Scalar) or node.kind in {"null", "bool"}:
        return reading.refuse(node, f"must be {wanted}, not {_described(node)}")
    text = reading.text(node) if node.kind == "text" else node.text
    if text is INVALID:
        return INVALID
    try:
        return parse(text)
    except ValueError as error:
        return reading.refuse(node, f"{_described(node)} {error}")


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    options: tuple[str, ...]

    @property
    def words(self) -> str:
        """The words."""
        return " or ".join(f"`{option}`" for option in self.options)

    def read(self, node: Node, reading: Reading) -> str | Invalid:
        """The word."""
        text = reading.text(node)
        if text is INVALID or text in self.options:
            return text
        like = names.nearest(shown(node), self.options) if isinstance(node, Scalar) else None
        hint = f"; did you mean {like}?" if like else ""
        known = ", ".join(self.options)
        return reading.refuse(node, f"must be one of {known}, not {_described(node)}{hint}")


@dataclass(frozen=True)
class YesNo:
    """true or false."""

    words: str = "true or false"

    def read(self, node: Node, reading: Reading) -> bool | Invalid:
        """Whether it is true."""
        if isinstance(node, Scalar) and node.kind == "bool":
            return node.text.lower() == "true"
        return reading.refuse(node, f"must be {self.words}, not {_described(node)}")


@dataclass(frozen=True)
class Or:
    """A value, or one word that stands for none."""

    kind: Kind
    none: str = "null"

    @property
    def words(self) -> str:
        """With the word."""
        return f"{self.kind.words}, or `{self.none}`"

    def read(self, node: Node, reading: Reading) -> Any:
        """The value or None."""
        if self.none == "null":
            is_none = isinstance(node, Scalar) and node.kind == "null"
        else:
            is_text = isinstance(node, Scalar) and node.kind == "text"
            is_none = is_text and reading.text(node) == self.none
        if is_none:
            return None
        return self.kind.read(node, reading)


@dataclass(frozen=True)
class File:
    """A path; a relative one begins at the folder of manent.yml."""

    words: str = "path"

    def read(self, node: Node, reading: Reading) -> Path | Invalid:
        """The path, absolute."""
        text = reading.text(node)
        if text is INVALID:
            return INVALID
        if not text:
            return reading.refuse(node, "must be a path, not empty")
        return reading.folder / text


@dataclass(frozen=True)
class DatabaseUrl:
    """The database URL, expanded inside its components."""

    words: str = "URL"

    def read(self, node: Node, reading: Reading) -> str | Invalid:
        """The URL with every component percent-encoded."""
        raw = reading.raw_text(node)
        if raw is INVALID:
            return INVALID
        try:
            return database_url.read(raw, environ=reading.environ, folder=reading.folder)
        except ValueError as error:
            return reading.refuse(node, str(error))


def _described(node: Node) -> str:
    if isinstance(node, Scalar):
        return f"'{shown(node)}'" if node.kind == "text" else (shown(node) or "nothing")
    return "a list" if isinstance(node, Listing) else "a map"
