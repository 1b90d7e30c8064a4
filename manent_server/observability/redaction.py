"""Keeping secrets out of everything that is stored, sent or logged.

A value is known by itself and by every form in which programs print it: base64 in its three
alignments, percent-encoded, escaped for JSON, XML, Python and shells, as hexadecimal digits;
each line of a value of several lines counts on its own. What looks like a secret without being
known as one (tokens of this server, private keys, passwords inside a URL) goes too.
"""

import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from manent_server.domain.errors import Invalid
from manent_server.domain.secret import MASK, Secret, names_a_secret
from manent_server.observability import forms

# Shorter values occur by chance everywhere; masking them would hide more than it protects.
MIN_LENGTH = 4
_NOTHING = re.compile(r"(?!)")
_LOOKS_SECRET = re.compile(
    r"mnt_[a-z]_[A-Za-z0-9]{20,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?<=://)(?P<user>[^\s:/@?#]*):[^\s/]*@"
    # Without a password it is a token there, not somebody's name.
    r"|(?<=http://)[^\s:/@?#]+(?P<end>@)|(?<=https://)[^\s:/@?#]+(?P<ends>@)",
    re.DOTALL,
)
_SIGNS = ("mnt_", "-----BEGIN", "://")


def in_variables(environ: Mapping[str, str]) -> list[Secret]:
    """What variables hold whose names say that it is a secret."""
    found = [value for name, value in environ.items() if names_a_secret(name)]
    return [Secret(value) for value in found if len(value.strip()) >= MIN_LENGTH]


class Redactor:
    """Knows secret values and takes them out of text. Safe to use from any thread."""

    def __init__(self, values: Iterable[str | Secret] = ()) -> None:
        self._adding = threading.Lock()
        self._values: frozenset[str] = frozenset()
        self._forms: tuple[str, ...] = ()
        self._sieve = forms.Sieve(())
        self._pattern = _NOTHING
        self.add(values)

    def add(self, values: Iterable[str | Secret]) -> None:
        """Learn values.

        Raises:
            Invalid: One is shorter than 4 characters: it could not be kept out of a log
                without hiding half of it. None of the values was learned then.
        """
        wanted = frozenset(
            value.reveal() if isinstance(value, Secret) else value for value in values
        )
        if any(len(value.strip()) < MIN_LENGTH for value in wanted):
            raise Invalid(
                f"a secret is too short: it has fewer than {MIN_LENGTH} characters",
                code="secret_too_short",
                next="use a longer secret; so short a one cannot be kept out of logs",
            )
        with self._adding:
            if wanted <= self._values:
                return
            self._values |= wanted
            self._forms = tuple(sorted(forms.of_all(self._values, shortest=MIN_LENGTH)))
            self._pattern = re.compile(forms.pattern(self._forms))
            self._sieve = forms.Sieve(self._forms)

    def redact(self, text: str) -> str:
        """The text with every secret in it replaced by `***`; one of several lines becomes one."""
        found = self._pattern.sub(MASK, text) if self._sieve.may_catch(text) else text
        if any(sign in found for sign in _SIGNS):
            return _LOOKS_SECRET.sub(_masked, found)
        return found

    def redact_value(self, value: Any) -> Any:
        """A JSON value with its texts redacted, and whatever stands under a telling key."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {
                self.redact(str(key)): MASK
                if isinstance(inner, str) and names_a_secret(str(key))
                else self.redact_value(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.redact_value(inner) for inner in value]
        if isinstance(value, int | float) and self.redact(str(value)) == MASK:
            return MASK
        return value

    def stream(self) -> "Stream":
        """A way to redact text that comes in pieces."""
        return Stream(self)

    def definite(self, text: str) -> int:
        """How much of the text can be judged without knowing what follows.

        What is left may be the beginning of a secret.
        """
        known, pattern = self._forms, self._pattern
        end = forms.open_end(text, known, start=0)
        for match in pattern.finditer(text):
            if match.start() >= end:
                break
            if match.end() > end:
                end = forms.open_end(text, known, start=match.end())
        return end


class Stream:
    """Redacts one text that arrives in pieces; a secret across a border is found too."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, text: str) -> str:
        """The part that may be shown now; what may be half a secret is held back."""
        self._held += text
        end = self._redactor.definite(self._held)
        shown, self._held = self._held[:end], self._held[end:]
        return self._redactor.redact(shown)

    def close(self) -> str:
        """The rest."""
        shown, self._held = self._held, ""
        return self._redactor.redact(shown)


def _masked(match: re.Match[str]) -> str:
    user = match["user"]
    if user is not None:
        return f"{user}:{MASK}@"
    return f"{MASK}{match['end'] or match['ends'] or ''}"
