"""Names at the edge: one normal form, one grammar, nothing cut."""

import difflib
import re
import unicodedata
from collections.abc import Iterable

from manent_server.domain.errors import NameInvalid

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def name(text: str, what: str, *, known: Iterable[str] = ()) -> str:
    """The name in its one form.

    Args:
        text: As given by a person or a program; brought to NFKC first.
        what: What it names (`application`), for the error.
        known: Existing names, so that the error can say which one is nearest.

    Raises:
        NameInvalid: Anything outside `[a-z0-9][a-z0-9._-]{0,62}`.
    """
    form = unicodedata.normalize("NFKC", text) if text.isprintable() else ""
    if _NAME.fullmatch(form):
        return form
    raise _invalid(
        text, what, "a-z, 0-9, '.', '_', '-', at most 63, a letter or digit first", known
    )


def version(text: str) -> str:
    """The version byte for byte, checked against `[A-Za-z0-9][A-Za-z0-9._+-]{0,127}`."""
    if _VERSION.fullmatch(text):
        return text
    rule = "A-Z, a-z, 0-9, '.', '_', '+', '-', at most 128, a letter or digit first"
    raise _invalid(text, "version", rule, ())


def sha256(text: str) -> str:
    """A digest as 64 lower-case hexadecimal digits."""
    if _SHA256.fullmatch(text):
        return text
    raise _invalid(text, "sha256", "64 lower-case hexadecimal digits", ())


def nearest(text: str, known: Iterable[str]) -> str | None:
    """The known name most like `text`, if one is like it at all."""
    form = unicodedata.normalize("NFKC", text).strip().lower()
    found = difflib.get_close_matches(form, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def _invalid(text: str, what: str, rule: str, known: Iterable[str]) -> NameInvalid:
    like = nearest(text, known)
    shown = text.encode("unicode_escape").decode("ascii")[:80]
    advice = f"did you mean {like!r}?" if like else f"the {what} has {rule}"
    return NameInvalid(f"{shown!r} is no valid {what}", next=advice)
