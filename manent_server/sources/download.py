"""One artifact over http(s): bounded in size, time and redirects, never led astray.

The address in manent.yml is the operator's word and may be anywhere. A redirect is the
server's word: it keeps the scheme, and never leads from a public address to a private one
or anywhere to a link-local one, where clouds keep credentials. Names are resolved once and
the checked address is the one connected to.
"""

import ipaddress
import logging
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO
from urllib.parse import unquote, urljoin

import httpx2

from manent_server.domain import egress
from manent_server.domain.egress import Address
from manent_server.sources.locations import (
    ArtifactLimits,
    ArtifactRefused,
    ArtifactUnavailable,
    Location,
)

_REDIRECTS = {301, 302, 303, 307, 308}
_PASSING = {408, 425, 429}
_TURNED_OFF = ("httpx2", "httpcore2")
for _name in _TURNED_OFF:
    # The library logs every URL with its query, where signed links keep their secret.
    logging.getLogger(_name).setLevel(logging.WARNING)


class Download:
    """One artifact on its way from a server into an open file."""

    def __init__(self, location: Location, limits: ArtifactLimits) -> None:
        self._first = location
        self._limits = limits
        self._ends = time.monotonic() + limits.total.total_seconds()
        self._may_be_private = False

    def into(self, file: IO[bytes]) -> None:
        """Write the whole body to `file`, or raise without a word about credentials."""
        timeout = httpx2.Timeout(
            self._limits.read.total_seconds(), connect=self._limits.connect.total_seconds()
        )
        try:
            with httpx2.Client(timeout=timeout, verify=self._tls(), trust_env=False) as client:
                self._follow(client, file)
        except (httpx2.TransportError, OSError) as error:
            raise ArtifactUnavailable(
                f"artifact {self._first.shown}: {_reason(error)}",
                next="check that the worker reaches this address, then try again",
            ) from error

    def _tls(self) -> ssl.SSLContext:
        if self._first.scheme == "https":
            return ssl.create_default_context()
        # No redirect leads from http to https: reading the machine's authorities would be in vain.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def _follow(self, client: httpx2.Client, file: IO[bytes]) -> None:
        location = self._first
        for _ in range(self._limits.redirects + 1):
            with self._answer(client, location) as response:
                if response.status_code not in _REDIRECTS:
                    self._receive(response, file)
                    return
                location = self._redirected(location, response.headers.get("location", ""))
        raise ArtifactRefused(
            f"artifact {self._first.shown}: more than {self._limits.redirects} redirects",
            next="use the address the last one leads to",
        )

    def _redirected(self, origin: Location, target: str) -> Location:
        try:
            location = Location.parse(urljoin(origin.parts.geturl(), target))
        except (ArtifactRefused, ValueError):
            location = None
        if not target or location is None or location.scheme != origin.scheme:
            raise ArtifactRefused(
                f"artifact {self._first.shown}: redirected to another scheme or nowhere",
                next="use the address the redirect leads to",
            )
        return location

    @contextmanager
    def _answer(self, client: httpx2.Client, location: Location) -> Iterator[httpx2.Response]:
        """The response to a GET of `location`, from the first checked address that answers."""
        failure: httpx2.ConnectError | None = None
        for address in self._addresses(location):
            request = _request(client, location, address)
            try:
                response = client.send(request, auth=self._auth(location), stream=True)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error if isinstance(error, httpx2.ConnectError) else None
                continue
            try:
                yield response
            finally:
                response.close()
            return
        raise failure or httpx2.ConnectError("no answer in time")

    def _addresses(self, location: Location) -> list[Address]:
        found = _resolve(location)
        if location is self._first:
            self._may_be_private = any(not egress.is_public(address) for address in found)
            return found
        allowed = [address for address in found if self._may_follow_to(address)]
        if not allowed:
            raise ArtifactRefused(
                f"artifact {self._first.shown}: redirected to an internal address, "
                f"{location.shown}",
                next="name the internal address in artifact.url itself if it is meant",
            )
        return allowed

    def _may_follow_to(self, address: Address) -> bool:
        if egress.is_nobodys(address):
            return False
        return self._may_be_private or egress.is_public(address)

    def _auth(self, location: Location) -> httpx2.BasicAuth | None:
        """The URL's own user and password; another host never gets those of the first."""
        parts = location.parts
        if parts.username is None and parts.netloc == self._first.parts.netloc.rpartition("@")[2]:
            parts = self._first.parts
        if parts.username is None:
            return None
        return httpx2.BasicAuth(unquote(parts.username), unquote(parts.password or ""))

    def _receive(self, response: httpx2.Response, file: IO[bytes]) -> None:
        self._demand_ok(response.status_code)
        promised = int(response.headers.get("content-length") or 0)
        self._demand_size(promised)
        received = 0
        # Raw: a .tar.gz sent with Content-Encoding: gzip has the digest of the bytes sent.
        for chunk in response.iter_raw():
            received += len(chunk)
            self._demand_size(received)
            if time.monotonic() > self._ends:
                raise httpx2.ReadTimeout(f"not complete after {self._limits.total}")
            file.write(chunk)
        if promised and received != promised:
            raise httpx2.ReadError(f"{received} of {promised} bytes came")

    def _demand_ok(self, status: int) -> None:
        if status == httpx2.codes.OK:
            return
        passing = status >= httpx2.codes.INTERNAL_SERVER_ERROR or status in _PASSING
        kind = ArtifactUnavailable if passing else ArtifactRefused
        raise kind(
            f"artifact {self._first.shown}: the server answered {status}",
            next="check that this version was published there and may be read",
        )

    def _demand_size(self, size: int) -> None:
        if size > self._limits.size:
            raise ArtifactRefused(
                f"artifact {self._first.shown}: larger than {self._limits.size} bytes",
                next="publish a smaller artifact",
            )


def _request(client: httpx2.Client, location: Location, address: Address) -> httpx2.Request:
    """A request that names the host and connects to the address that was checked."""
    host = str(location.parts.hostname)
    literal = f"[{address}]" if isinstance(address, ipaddress.IPv6Address) else str(address)
    port = f":{location.parts.port}" if location.parts.port else ""
    query = f"?{location.parts.query}" if location.parts.query else ""
    named = location.parts.netloc.rpartition("@")[2]
    return client.build_request(
        "GET",
        f"{location.scheme}://{literal}{port}{location.parts.path or '/'}{query}",
        headers={"Host": named, "Accept": "*/*", "Accept-Encoding": "identity"},
        extensions={"sni_hostname": host},
    )


def _resolve(location: Location) -> list[Address]:
    port = location.parts.port or (443 if location.scheme == "https" else 80)
    found = socket.getaddrinfo(location.parts.hostname, port, type=socket.SOCK_STREAM)
    return [egress.address(str(entry[4][0])) for entry in found]


def _reason(error: Exception) -> str:
    """What went wrong in a few words; a library's text carries no URL of ours here."""
    if isinstance(error, socket.gaierror):
        return "the host name cannot be resolved"
    if isinstance(error, httpx2.TimeoutException):
        return f"no answer in time ({str(error) or 'timed out'})"
    return str(error) or type(error).__name__
