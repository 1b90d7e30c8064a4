"""The database URL: split first, expanded then, so that no password can move a border.

A value that comes from `${NAME}` is taken byte for byte into its component and percent-encoded
there. A password written out in the file may hold any character too, as long as it can be told
from an encoded one.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from manent_server.settings.expand import Variable, parts, value

# While the URL is split, each variable is one character of the private use area.
_FIRST_MARK = 0xE000
_MARKS = re.compile("([\ue000-\uf8ff])")
_HOST = r"(?P<host>[^/?#@:\[\]]*|\[[^/?#@\[\]]*\])(?::(?P<port>[0-9\ue000-\uf8ff]*))?"
_ENCODED = re.compile(
    rf"(?P<scheme>[a-z0-9+]+)://(?:(?P<user>[^/?#@]*)@)?{_HOST}"
    r"(?:/(?P<database>[^?#@]*))?(?:\?(?P<query>[^#]*))?"
)
_LITERAL = re.compile(
    rf"(?P<scheme>[a-z0-9+]+)://(?P<user>.*)@{_HOST}"
    r"(?:/(?P<database>[^?#@/]*))?(?:\?(?P<query>[^#@]*))?"
)
_SQLITE = re.compile(r"(?P<scheme>sqlite(\+[a-z]+)?):///(?P<file>[^?#]+)(?P<query>\?[^#]*)?")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_PLAIN_HOST = re.compile(r"[A-Za-z0-9._-]*|\[[0-9a-fA-F:.]+\]")
_MORE = "percent-encode the password or keep it in a variable: ${DB_PASSWORD}"
_HIGHEST_PORT = 65535
_MOST_VARIABLES = 100


@dataclass(frozen=True, slots=True)
class _Marked:
    """A URL whose variables are marks, and their values."""

    text: str
    values: tuple[str, ...]

    def fill(self, text: str, decode: Callable[[str], str] = str) -> str:
        """A piece of the URL with literal parts decoded and values put in as they are."""
        return "".join(
            self.values[ord(piece) - _FIRST_MARK] if _MARKS.fullmatch(piece) else decode(piece)
            for piece in _MARKS.split(text)
        )


def read(text: str, *, environ: Mapping[str, str], folder: Path) -> str:
    """The URL with its variables filled in; a relative SQLite file lies in `folder`.

    Raises:
        ValueError: No usable URL; the message never repeats any of it.
    """
    marked = _mark(text, environ)
    if marked.text.startswith("sqlite"):
        return _sqlite(marked, folder)
    if not marked.text.startswith(("postgresql:", "postgresql+")):
        raise ValueError("must begin with postgresql:// or sqlite:///")
    return _postgresql(marked)


def without_password(url: str) -> str:
    """A URL that `read` returned, as it may be shown and hashed."""
    return re.sub(r"^([a-z0-9+]+://[^:/@]*):[^@/]*@", r"\1@", url)


def _mark(text: str, environ: Mapping[str, str]) -> _Marked:
    if _MARKS.search(text):
        raise ValueError("holds a character that no URL has")
    found = parts(text)
    if found and isinstance(found[0], Variable):
        # The whole URL is kept in a variable: then its value is what is split.
        whole = "".join(part if isinstance(part, str) else value(part, environ) for part in found)
        if _MARKS.search(whole):
            raise ValueError("holds a character that no URL has")
        return _Marked(whole, ())
    values: list[str] = []
    marked = ""
    for part in found[: 4 * _MOST_VARIABLES]:
        if isinstance(part, str):
            marked += part
            continue
        marked += chr(_FIRST_MARK + len(values))
        values.append(value(part, environ))
    if len(values) > _MOST_VARIABLES:
        raise ValueError(f"holds more than {_MOST_VARIABLES} variables")
    return _Marked(marked, tuple(values))


def _sqlite(marked: _Marked, folder: Path) -> str:
    found = _SQLITE.fullmatch(marked.text)
    name = marked.fill(found["file"], unquote) if found else ""
    if not found or name == ":memory:":
        raise ValueError("must name a file: sqlite:///manent.db")
    file = quote(str(folder / name), safe="/:\\")
    return f"{found['scheme']}:///{file}{marked.fill(found['query'] or '')}"


def _postgresql(marked: _Marked) -> str:
    found, decode = _split(marked.text)
    host, port = marked.fill(found["host"]), marked.fill(found["port"] or "")
    query = _query(marked, found["query"] or "")
    if not _PLAIN_HOST.fullmatch(host):
        raise ValueError(f"has a host that is none; {_MORE}")
    if port and not (port.isascii() and port.isdigit() and int(port[:6]) <= _HIGHEST_PORT):
        raise ValueError(f"has a port that is none; {_MORE}")
    if not host and "host=" not in query:
        raise ValueError("names no host")
    url = f"{found['scheme']}://{_user(marked, found['user'], decode)}{host}"
    url += f":{port}" if port else ""
    if found["database"] is not None:
        url += "/" + quote(marked.fill(found["database"], unquote), safe="")
    return url + query


def _split(text: str) -> tuple[re.Match[str], Callable[[str], str]]:
    found = _ENCODED.fullmatch(text)
    if found and (found["user"] is not None or "@" not in (found["query"] or "")):
        return found, unquote
    found = _LITERAL.fullmatch(text)
    if found is None or _ESCAPE.search(found["user"]):
        raise ValueError(f"is no URL; {_MORE}")
    return found, str


def _user(marked: _Marked, user: str | None, decode: Callable[[str], str]) -> str:
    if user is None:
        return ""
    name, colon, password = user.partition(":")
    name, password = marked.fill(name, decode), marked.fill(password, decode)
    return f"{quote(name, safe='')}{colon}{quote(password, safe='')}@"


def _query(marked: _Marked, query: str) -> str:
    pairs = []
    for pair in query.split("&") if query else []:
        name, equals, text = pair.partition("=")
        name, text = marked.fill(name, unquote_plus), marked.fill(text, unquote_plus)
        pairs.append(quote_plus(name) + equals + quote_plus(text, safe="/:,"))
    return "?" + "&".join(pairs) if pairs else ""
