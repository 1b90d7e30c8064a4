"""The keys of identity providers: found by discovery, kept for a while, asked for now and then.

Only issuers of manent.yml are ever asked, and none more often than every half minute, whatever
tokens name.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from manent_server.domain.assertion import AssertionRefused, Claims
from manent_server.domain.errors import Unavailable
from manent_server.sources import signature
from manent_server.sources.signature import Jwk, KeyUnknown, Signed

if TYPE_CHECKING:
    import httpx2

_log = logging.getLogger(__name__)

FRESH: Final = timedelta(hours=1)
"""Keys younger than this are used as they are."""
USABLE: Final = timedelta(hours=24)
"""Keys older than this are used no more, also when the issuer cannot be reached."""
PAUSE: Final = timedelta(seconds=30)
"""Between two questions to one issuer."""
_TIMEOUT: Final = 5.0
_MOST: Final = 512 * 1024
_MOST_KEYS: Final = 100

Fetch = Callable[[str], Mapping[str, Any]]


class Unfetched(Exception):
    """A document of an issuer that could not be had."""


@dataclass
class _Known:
    """What is known of one issuer; instants of the clock of `Issuers`."""

    keys: Sequence[Jwk] = ()
    fetched: float | None = None
    asked: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Issuers:
    """The keys of every issuer this process has met.

    Args:
        fetch: Reads a JSON document at an URL; raises `Unfetched`.
        clock: Seconds that only rise.
    """

    def __init__(
        self, fetch: Fetch | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch or read
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def believe(self, token: Signed, issuer: str) -> Claims:
        """The claims of a token that this issuer has signed.

        Args:
            token: Taken apart.
            issuer: One of manent.yml.

        Raises:
            AssertionRefused: It has not.
            Unavailable: Its keys cannot be had now.
        """
        if token.issuer != issuer:
            raise AssertionRefused("its issuer is another one")
        with self._lock:
            known = self._known.setdefault(issuer, _Known())
        keys = self._keys(known, issuer, is_missing=False)
        try:
            signature.demand_signature(token, keys)
        except KeyUnknown:
            newer = self._keys(known, issuer, is_missing=True)
            if newer is keys:
                raise
            signature.demand_signature(token, newer)
        return token.claims

    def _keys(self, known: _Known, issuer: str, *, is_missing: bool) -> Sequence[Jwk]:
        """The keys, asked for anew when they are old or one is missing, but not too often."""
        if not is_missing and self._is_fresh(known):
            return known.keys  # while somebody else waits for newer ones
        with known.lock:
            now = self._clock()
            may_ask = known.asked is None or now - known.asked >= PAUSE.total_seconds()
            if (is_missing or not self._is_fresh(known)) and may_ask:
                known.asked = now
                self._renew(known, issuer, now)
            if known.fetched is None or now - known.fetched >= USABLE.total_seconds():
                raise Unavailable(
                    "the identity provider's keys cannot be had", next="try again in a minute"
                )
            return known.keys

    def _is_fresh(self, known: _Known) -> bool:
        fetched = known.fetched
        return fetched is not None and self._clock() - fetched < FRESH.total_seconds()

    def _renew(self, known: _Known, issuer: str, now: float) -> None:
        try:
            found = self._found(issuer)
        except Unfetched as error:
            _log.warning("the keys of %s cannot be read: %s", issuer, error)
            return
        known.keys, known.fetched = found, now

    def _found(self, issuer: str) -> Sequence[Jwk]:
        about = self._fetch(issuer.rstrip("/") + "/.well-known/openid-configuration")
        if about.get("issuer") != issuer:
            raise Unfetched("its discovery document is of another issuer")
        address = about.get("jwks_uri")
        if not isinstance(address, str) or not _is_safe(address, issuer):
            raise Unfetched("its discovery document names no https address of keys")
        keys = self._fetch(address).get("keys")
        if not isinstance(keys, list):
            raise Unfetched("what stands at jwks_uri is no set of keys")
        return [one for one in keys[:_MOST_KEYS] if isinstance(one, dict)]


def _is_safe(address: str, issuer: str) -> bool:
    """Keys come over TLS, but for an issuer on this very machine."""
    parts, mine = urlsplit(address), urlsplit(issuer)
    if parts.scheme == "https":
        return True
    return parts.scheme == mine.scheme == "http" and parts.hostname == mine.hostname


def read(url: str) -> Mapping[str, Any]:
    """A small JSON document: no redirect is followed, no proxy of the environment is used.

    Raises:
        Unfetched: It cannot be had.
    """
    # Loaded by who signs in: no command and no server without OIDC needs it.
    import httpx2  # noqa: PLC0415 - see above

    try:
        with (
            httpx2.Client(timeout=_TIMEOUT, trust_env=False) as client,
            client.stream("GET", url, headers={"accept": "application/json"}) as answer,
        ):
            if answer.status_code != httpx2.codes.OK:
                raise Unfetched(f"the answer is {answer.status_code}")
            found = json.loads(_body(answer))
    except (httpx2.HTTPError, OSError) as error:
        raise Unfetched(type(error).__name__) from None
    except (ValueError, RecursionError):
        raise Unfetched("the answer is no JSON") from None
    if not isinstance(found, dict):
        raise Unfetched("the answer is no JSON object")
    return found


def _body(answer: "httpx2.Response") -> bytes:
    ends = time.monotonic() + _TIMEOUT
    found = bytearray()
    for chunk in answer.iter_bytes():
        found += chunk
        if len(found) > _MOST or time.monotonic() > ends:
            raise Unfetched("the answer is too large or too slow")
    return bytes(found)
