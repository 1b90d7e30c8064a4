"""Requests that leave this server: to a checked address, in bounded time, and no further.

A name is resolved once and the address that was checked is the one connected to. No redirect is
followed, no proxy of the environment is used, certificates are verified against the name, and
everything together (resolving apart) ends at one instant, however slowly bytes come.
"""

import ipaddress
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import httpcore2

from manent_server.domain import egress
from manent_server.domain.egress import Network

# The library logs every request with its URL, which may hold a token.
logging.getLogger("httpcore2").setLevel(logging.WARNING)

_MOST: Final = 16 * 1024
_MOST_KEPT: Final = 256 * 1024
Resolve = Callable[[str, int], list[str]]


class Unreached(Exception):
    """No answer came. The words name neither path nor query of the address."""


class Forbidden(Unreached):
    """The name leads to an address this server must not connect to."""


@dataclass(frozen=True)
class Answer:
    """What came back; a body is kept only where one was asked for."""

    status: int
    retry_after: str | None
    body: bytes = b""


def resolve(host: str, port: int) -> list[str]:
    """Every address of a name, as the system gives them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Egress:
    """Sends to addresses of the internet, and to networks that are allowed by name.

    Args:
        allowed: Networks beside the internet, such as `10.0.0.0/8`.
        timeout: For one request in all.
        find: How names are resolved.
        tls: What certificates are verified with; the authorities of this machine unless given.
    """

    def __init__(
        self,
        allowed: Sequence[str],
        *,
        timeout: timedelta,
        find: Resolve = resolve,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed = [ipaddress.ip_network(network) for network in allowed]
        self._timeout = timeout.total_seconds()
        self._find = find
        self._tls = tls

    def post(self, url: str, *, headers: Mapping[str, str], content: bytes) -> Answer:
        """The answer to one POST.

        Raises:
            Unreached: There was none in time, or none that could be believed.
            Forbidden: Nothing was sent: the address is not allowed.
        """
        return self._send("POST", url, headers, content, _received)

    def ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        content: bytes = b"",
        most: int = _MOST_KEPT,
    ) -> Answer:
        """The answer to one request, with its body.

        Args:
            method: In capitals.
            url: Whom.
            headers: What is sent.
            content: What is sent with them.
            most: Bytes of a body that are taken; a longer one is no answer.

        Raises:
            Unreached: There was none in time, or none that could be believed.
            Forbidden: Nothing was sent: the address is not allowed.
        """
        return self._send(method, url, headers, content, lambda found: _kept(found, most))

    def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes,
        receive: Callable[[httpcore2.Response], Answer],
    ) -> Answer:
        ends = time.monotonic() + self._timeout
        backend = _Backend(self._allowed, self._find, ends)
        try:
            with (
                httpcore2.ConnectionPool(self._context(url), network_backend=backend) as pool,
                pool.stream(method, url, headers=[*headers.items()], content=content) as response,
            ):
                return receive(response)
        except (socket.gaierror, UnicodeError):
            raise Unreached("the host name cannot be resolved") from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
            raise Unreached(_reason(error)) from None
        except httpcore2.TimeoutException:
            raise Unreached(f"no answer in {self._timeout:g} s") from None

    def _context(self, url: str) -> ssl.SSLContext:
        if self._tls is None:
            # Reading the authorities takes 20 ms: not for plain HTTP, and once.
            if not url.startswith("https:"):
                return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._tls = ssl.create_default_context()
        return self._tls


def _kept(response: httpcore2.Response, most: int) -> Answer:
    body = bytearray()
    for chunk in response.iter_stream():
        body += chunk
        if len(body) > most:
            raise Unreached(f"the answer is longer than {most} bytes")
    return Answer(response.status, _retry_after(response), bytes(body))


def _retry_after(response: httpcore2.Response) -> str | None:
    found = {name.decode("latin-1").lower(): value for name, value in response.headers}
    retry_after = found.get("retry-after")
    return retry_after.decode("latin-1") if retry_after else None


def _received(response: httpcore2.Response) -> Answer:
    size = 0
    if response.status < 300:  # noqa: PLR2004 - the body of a refusal is nobody's
        for chunk in response.iter_stream():
            size += len(chunk)
            if size > _MOST:
                break
    return Answer(response.status, _retry_after(response))


def _reason(error: Exception) -> str:
    """A few words; nothing of what was sent or of the address is in them."""
    cause = error.__cause__ or error.__context__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed: {cause.reason or 'unknown'}"
    return f"the connection broke ({type(cause).__name__})"


class _Backend(httpcore2.NetworkBackend):
    """Connects to checked addresses only, until one instant."""

    def __init__(self, allowed: Sequence[Network], find: Resolve, ends: float) -> None:
        self._allowed = allowed
        self._find = find
        self._ends = ends
        self._plain = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """The first allowed address of the name that answers."""
        del timeout
        failure: httpcore2.ConnectError | httpcore2.ConnectTimeout | None = None
        for found in self._addresses(host.strip("[]"), port):
            try:
                stream = self._plain.connect_tcp(
                    found,
                    port,
                    timeout=_left(self._ends),
                    local_address=local_address,
                    socket_options=socket_options,
                )
                return _Bounded(stream, self._ends)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore2.ConnectError("no address")

    def _addresses(self, host: str, port: int) -> list[str]:
        found = self._find(host, port)
        allowed = [
            text
            for text in found
            if egress.may_connect(egress.address(text), allowed=self._allowed)
        ]
        if found and not allowed:
            raise Forbidden(f"{host} leads to an internal address that is not allowed")
        return allowed


class _Bounded(httpcore2.NetworkStream):
    """A stream that ends at one instant, however slowly it goes on."""

    def __init__(self, inner: httpcore2.NetworkStream, ends: float) -> None:
        self._inner = inner
        self._ends = ends

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has come."""
        del timeout
        return self._inner.read(max_bytes, _left(self._ends))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send."""
        del timeout
        self._inner.write(buffer, _left(self._ends))

    def close(self) -> None:
        """Let go."""
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        """Go on under TLS."""
        del timeout
        inner = self._inner.start_tls(ssl_context, server_hostname, _left(self._ends))
        return _Bounded(inner, self._ends)

    def get_extra_info(self, info: str) -> Any:
        """What the stream knows of itself."""
        return self._inner.get_extra_info(info)


def _left(ends: float) -> float:
    """Seconds until the end.

    Raises:
        ReadTimeout: There are none.
    """
    seconds = ends - time.monotonic()
    if seconds <= 0:
        raise httpcore2.ReadTimeout
    return seconds
