"""The HTTP client of manent's API, on the standard library alone.

One request, one connection: a poll every second needs no pool, and a connection that a
proxy or a restarting server has cut is never met again.
"""

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from manent_cli import __version__
from manent_cli.errors import BadUsage, Problem, Strange, Unreachable
from manent_cli.proxy import proxy_for
from manent_cli.sse import Event, events

PREFIX = "/api/v1"
# Longer than the server's keep-alive on a quiet stream, so silence means a dead connection.
STREAM_TIMEOUT = 60.0

Query = Mapping[str, Any]


def segment(text: str, *, what: str = "deploy") -> str:
    """One part of a path, percent-encoded whole: `shop/production#3` is one part.

    Raises:
        BadUsage: It is empty, or would mean another path.
    """
    if text in {"", ".", ".."}:
        raise BadUsage(f"{text!r} is no {what}", next=f"name the {what}")
    return quote(text, safe="")


def masked(url: str) -> str:
    """The URL without the credentials that may stand in it, also when it is none."""
    if "@" not in url:
        return url
    scheme, mark, _ = url.partition("://")
    return (scheme + mark if mark else "") + "***@" + url.rpartition("@")[2]


class Client:
    """One manent server, as one caller.

    Args:
        url: The server, e.g. `https://manent.example`, with or without a path before `/api`.
        token: The bearer token; None asks as nobody.
        timeout: Seconds one request may wait for the server.
        environ: Where the proxy variables are read from.
        context: Whose token it is.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        environ: Mapping[str, str] | None = None,
        context: str | None = None,
    ) -> None:
        self._context = context
        self._parts = _split(url)
        self.url = masked(self._parts.geturl()).rstrip("/")
        self._token = token
        self._timeout = timeout
        self._proxy = proxy_for(self._parts, environ or {})

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def get(self, path: str, query: Query | None = None, *, timeout: float | None = None) -> Any:
        """The answer to GET `path` (below `/api/v1`), parsed."""
        return self._ask("GET", _path(path, query), timeout=timeout)

    def get_deploy(self, path: str, *, timeout: float | None = None) -> dict[str, Any]:
        """The deploy at `path`.

        Raises:
            Strange: What came is none.
        """
        found = self.get(path, timeout=timeout)
        if not isinstance(found, dict) or not found.get("id") or "state" not in found:
            raise Strange(self.url, "a deploy was asked for, something else came")
        return found

    def post(
        self, path: str, body: Mapping[str, Any], *, key: str, timeout: float | None = None
    ) -> Any:
        """The answer to POST `path`; `key` makes a repeated request the same request."""
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        return self._ask(
            "POST", path, headers=headers, content=json.dumps(body).encode(), timeout=timeout
        )

    def delete(self, path: str, *, timeout: float | None = None) -> Any:
        """The answer to DELETE `path`, None when it has no body."""
        return self._ask("DELETE", path, timeout=timeout)

    def stream(
        self, path: str, query: Query | None = None, *, last_event_id: str | None = None
    ) -> Iterator[Event]:
        """The events of `path` from after `last_event_id` until the connection ends.

        Raises:
            Unreachable: The connection was cut or fell silent; ask again with the last id.
        """
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        connection = self._connect(STREAM_TIMEOUT)
        try:
            answer = self._send(connection, "GET", _path(path, query), headers, None)
            if answer.status != HTTPStatus.OK:
                self._refuse(answer, self._body(answer))
            kind = answer.headers.get_content_type()
            if kind != "text/event-stream":
                raise Strange(self.url, f"a stream was asked for, {kind} came")
            yield from events(self._lines(answer))
        finally:
            connection.close()

    def _ask(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout: float | None = None,
    ) -> Any:
        connection = self._connect(self._timeout if timeout is None else timeout)
        try:
            answer = self._send(connection, method, path, headers or {}, content)
            body = self._body(answer)
        finally:
            connection.close()
        if not _is_class(answer.status, HTTPStatus.OK):
            self._refuse(answer, body)
        return self._parsed(answer, body)

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        parts = urlsplit(self._proxy) if self._proxy else self._parts
        host = parts.hostname or ""
        if self._parts.scheme != "https":
            return http.client.HTTPConnection(host, parts.port, timeout=timeout)
        connection = http.client.HTTPSConnection(
            host, parts.port, timeout=timeout, context=ssl.create_default_context()
        )
        if self._proxy:
            headers = _proxy_authorization(parts)
            connection.set_tunnel(self._parts.hostname or "", self._parts.port, headers)
        return connection

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        headers: Mapping[str, str],
        content: bytes | None,
    ) -> http.client.HTTPResponse:
        sent = {"Accept": "application/json", "User-Agent": f"manent-cli/{__version__}"}
        sent |= {"Connection": "close", **headers}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        target = self._parts.path.rstrip("/") + PREFIX + path
        if self._proxy and self._parts.scheme == "http":
            target = f"http://{self._parts.netloc.rpartition('@')[2]}{target}"
            sent |= _proxy_authorization(urlsplit(self._proxy))
        try:
            connection.request(method, target, body=content, headers=sent)
            return connection.getresponse()
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise self._unreachable(error) from error

    def _body(self, answer: http.client.HTTPResponse) -> bytes:
        try:
            return answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _lines(self, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        try:
            while line := answer.readline():
                yield line
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> Unreachable:
        # A name nobody knows and a certificate nobody signed will not mend in a minute.
        is_lasting = isinstance(error, ssl.SSLCertVerificationError | UnicodeError)
        return Unreachable(
            self.url,
            _reason(error),
            is_passing=not is_lasting,
            is_cut_off=isinstance(error, TimeoutError),
        )

    def _refuse(self, answer: http.client.HTTPResponse, body: bytes) -> None:
        place = answer.getheader("Location")
        if _is_class(answer.status, HTTPStatus.MULTIPLE_CHOICES):
            to = masked(place.partition("?")[0]) if place else "nowhere"
            raise Strange(
                self.url,
                f"it sends us on ({answer.status}) to {to}",
                next="set MANENT_URL to where the server really is",
            )
        try:
            fields = json.loads(body)
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            fields = {"detail": f"{self.url} answered {answer.status} {answer.reason}"}
        fields.setdefault("request_id", answer.getheader("X-Request-ID"))
        if answer.status == HTTPStatus.UNAUTHORIZED and not self._token:
            # The server speaks to programs, of headers.
            fields["next"] = "set MANENT_TOKEN, or choose a context: manent context list"
        elif answer.status == HTTPStatus.UNAUTHORIZED and self._context:
            fields["next"] = (
                f"it is the token of context {self._context}: choose another one (manent context "
                "list), sign in again (manent login), or ask an administrator for a token"
            )
        raise Problem(answer.status, fields, retry_after=_seconds(answer.getheader("Retry-After")))

    def _parsed(self, answer: http.client.HTTPResponse, body: bytes) -> Any:
        if answer.status == HTTPStatus.NO_CONTENT or not body:
            return None
        try:
            return json.loads(body)
        except ValueError as error:
            kind = answer.headers.get_content_type()
            raise Strange(self.url, f"JSON was asked for, {kind} came") from error


def _split(url: str) -> SplitResult:
    parts = SplitResult("", "", "", "", "")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or "@" in parts.netloc:
        raise BadUsage(
            f"{masked(url)!r} is no address of a server",
            next="write it like https://manent.example, without credentials or a query",
        )
    return parts


def _is_class(status: int, first: HTTPStatus) -> bool:
    return first <= status <= first + 99


def _path(path: str, query: Query | None) -> str:
    given = [(name, value) for name, value in (query or {}).items() if value is not None]
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.HTTPException | ConnectionResetError):
        return "the connection was cut"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _seconds(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    from base64 import b64encode  # noqa: PLC0415 - hardly ever needed, and start time counts

    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + b64encode(pair.encode()).decode()}
