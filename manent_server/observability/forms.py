"""The forms in which a secret value may be printed, and one pattern that finds them all."""

import base64
import html
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from urllib.parse import quote, quote_plus

# Line widths of the usual base64 writers: MIME, PEM.
_WIDTHS = (76, 64)
_SHELL = re.compile(r"([^A-Za-z0-9_@%+=:,./-])")
_IN_QUOTES = re.compile(r'(["\\$`])')
_PERCENT = re.compile(r"%[0-9A-F]{2}")
# What encodeURIComponent and encodeURI of browsers leave alone.
_COMPONENT = "!'()*~"
_URI = ";,/?:@&=+$-_.!~*'()#"
# Letters of logs, the most frequent first; what is not among them is rarer.
_FREQUENT = ' 0123456789eatoinsrlcdumphfg.-:/bywv"=[]_k,EATIOSNRCLDxz'
_SIGNS = 4
_MOST_FORMS = 1000
_LONG = 16


def of_all(values: Iterable[str], *, shortest: int) -> set[str]:
    """Every form of every value and of every line of it, none shorter than `shortest`."""
    found: set[str] = set()
    for value in values:
        for part in {value, value.strip(), *(line.strip() for line in value.splitlines())}:
            if len(part) >= shortest:
                found |= {form for form in of(part) if len(form) >= shortest}
    return found


def of(value: str) -> set[str]:
    """Every form of one value."""
    return {
        value,
        *_escaped(value),
        *_marked_up(value),
        *_percent_encoded(value),
        *_in_shells(value),
        *_encoded(value.encode("utf-8", "surrogatepass")),
    }


def pattern(known: Iterable[str]) -> str:
    """A regular expression that matches the longest of the forms at any place."""
    return _branch(sorted(known)) if known else "(?!)"


class Sieve:
    """A quick look that tells of most long texts that none of the forms is in them.

    Args:
        known: The forms.
    """

    def __init__(self, known: Iterable[str]) -> None:
        # A text that lacks a form's rarest letters is done with after a glance.
        self._signs = [(form, sorted(set(form), key=_frequency)[:_SIGNS]) for form in known]

    def may_catch(self, text: str) -> bool:
        """False if no form is in the text; True if one may be."""
        if not self._signs:
            return False
        if len(self._signs) > _MOST_FORMS or len(text) < _LONG * len(self._signs):
            return True
        return any(
            all(sign in text for sign in signs) and form in text for form, signs in self._signs
        )


def open_end(text: str, known: Sequence[str], *, start: int) -> int:
    """The first place from `start` on where the rest of the text begins a longer form.

    Args:
        text: What arrived so far.
        known: All forms, sorted.
        start: Where to begin.
    """
    longest = max(map(len, known), default=0)
    for place in range(max(start, len(text) - longest + 1), len(text)):
        rest = text[place:]
        at = bisect_left(known, rest)
        if at < len(known) and known[at] == rest:
            at += 1
        if at < len(known) and known[at].startswith(rest):
            return place
    return len(text)


def _branch(known: list[str]) -> str:
    """Common beginnings once: `ab(?:cd|ef)`; longer before shorter."""
    groups = []
    for first, members in groupby(known, key=lambda form: form[:1]):
        same = list(members)
        if not first:  # the form that ends here: only when none of the longer ones fits
            continue
        begin = _common(same[0], same[-1])
        rests = [form[len(begin) :] for form in same]
        groups.append(re.escape(begin) + (_branch(rests) if any(rests) else ""))
    body = "|".join(groups)
    if "" in known:
        return f"(?:{body})?"
    return groups[0] if len(groups) == 1 else f"(?:{body})"


def _common(first: str, last: str) -> str:
    pairs = zip(first, last, strict=False)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _escaped(value: str) -> Iterator[str]:
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield once.replace("/", "\\/")
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]
    yield repr(value)[1:-1]
    yield repr(value.encode("utf-8", "surrogatepass"))[2:-1]


def _marked_up(value: str) -> Iterator[str]:
    bare = html.escape(value, quote=False)
    yield bare
    for double in ("&quot;", "&#34;", '"'):
        for single in ("&#x27;", "&#39;", "&apos;", "'"):
            yield bare.replace('"', double).replace("'", single)


def _percent_encoded(value: str) -> Iterator[str]:
    raw = value.encode("utf-8", "surrogatepass")
    for safe in ("", "/", _COMPONENT, _URI):
        yield from _both_cases(quote(raw, safe=safe))
    yield from _both_cases(quote_plus(raw))
    yield from _both_cases("".join(f"%{byte:02X}" for byte in raw))


def _both_cases(text: str) -> Iterator[str]:
    yield text
    yield _PERCENT.sub(lambda match: match[0].lower(), text)


def _in_shells(value: str) -> Iterator[str]:
    yield value.replace("'", "'\\''")
    yield value.replace("'", "'\"'\"'")
    yield _SHELL.sub(r"\\\1", value)
    yield _IN_QUOTES.sub(r"\\\1", value)


def _encoded(raw: bytes) -> Iterator[str]:
    yield raw.hex()
    yield raw.hex().upper()
    for before in range(3):
        text = _aligned(raw, before)
        yield text
        yield text.translate(str.maketrans("+/", "-_"))
    whole = base64.b64encode(raw).decode().rstrip("=")
    for width in _WIDTHS:
        yield from (whole[at : at + width] for at in range(0, len(whole), width))


def _aligned(raw: bytes, before: int) -> str:
    """The part of a base64 text that is the same whatever stands around the value."""
    text = base64.b64encode(b"\0" * before + raw).decode()
    first = (before * 8 + 5) // 6
    last = (before + len(raw)) * 8 // 6
    return text[first:last]


def _frequency(letter: str) -> int:
    place = _FREQUENT.find(letter)
    return -place if place >= 0 else -len(_FREQUENT)
