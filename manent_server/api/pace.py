"""How much one caller and one address may ask: buckets that fill again, in bounded memory."""

import hashlib
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from manent_server.api.problem import HttpRefusal, refusal
from manent_server.api.signin import SIGNED, is_public
from manent_server.domain.errors import NotSignedIn
from manent_server.settings.values import Rates

_MOST: Final = 10_000
"""Keys that are remembered of one kind; whoever was not heard of for longest is forgotten."""
_BURST: Final = 10.0
"""Seconds' worth of requests that may come at once."""
_MINUTE: Final = 60.0
_PREFIX: Final = 64
"""Bits of an IPv6 address that are one neighbour's: the rest anybody can choose anew."""
_NEVER_REFUSED: Final = frozenset({"/livez"})
"""What platforms kill a process for when it is not answered."""


class Buckets:
    """A bucket of requests for each key, which fills again by the clock.

    Args:
        rate: How many come in each second; 0: there is no limit.
        size: How many a full bucket holds.
        most: Keys that are remembered.
        clock: Seconds.
    """

    def __init__(
        self,
        rate: float,
        size: float,
        *,
        most: int = _MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate, self._size, self._most, self._clock = rate, size, most, clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._levels)

    def wait(self, key: str) -> float:
        """Seconds until there is one for this key; 0: now."""
        missing = 1.0 - self._level(key)
        return max(0.0, missing / self._rate) if self._rate else 0.0

    def take(self, key: str) -> float:
        """Take one; if there is none, the seconds until there is."""
        if not self._rate:
            return 0.0
        wait = self.wait(key)
        if not wait:
            self._levels[key] = (self._level(key) - 1.0, self._clock())
            self._levels.move_to_end(key)
            if len(self._levels) > self._most:
                self._levels.popitem(last=False)
        return wait

    def _level(self, key: str) -> float:
        found = self._levels.get(key)
        if found is None:
            return self._size
        level, at = found
        return min(self._size, level + (self._clock() - at) * self._rate)


class AtTheDoor:
    """ASGI middleware before anybody is known: heads that are too large, addresses that ask a lot.

    An address from which too many sign-ins failed is heard only with what it signed in with
    before: neither can it keep the database busy, nor its neighbours out. Chats sign in to nothing.

    Args:
        app: What is behind it.
        rates: The limits.
        header_limit: Bytes of a request before its body.
        clock: Seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        rates: Rates,
        header_limit: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._header_limit = header_limit
        self._public = Buckets(rates.public, rates.public * _BURST, clock=clock)
        failures = rates.failed_sign_ins
        self._failures = Buckets(failures / _MINUTE, failures, clock=clock)
        self._good: OrderedDict[bytes, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, unless it is too much."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._demand_small(scope)
        _demand_one_end(scope)
        if scope["path"] in _NEVER_REFUSED:
            await self._app(scope, receive, send)
            return
        address, shown = _neighbour(scope), _shown(scope)
        if is_public(scope["path"]):
            _demand(self._public.take(address), "this address asks too much")
        if shown not in self._good and not scope["path"].startswith(SIGNED):
            _demand(self._failures.wait(address), "too many sign-ins from this address failed")
        try:
            await self._app(scope, receive, send)
        except NotSignedIn:
            self._failures.take(address)
            self._good.pop(shown, None)
            raise
        if scope.get("state", {}).get("caller") is not None:
            self._remember(shown)

    def _demand_small(self, scope: Scope) -> None:
        size = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
        size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size > self._header_limit:
            raise refusal(
                431,
                f"address and headers are larger than {self._header_limit} bytes",
                advice="send less, or raise server.header_limit",
            )

    def _remember(self, shown: bytes) -> None:
        self._good[shown] = None
        self._good.move_to_end(shown)
        if len(self._good) > _MOST:
            self._good.popitem(last=False)


class OfCallers:
    """ASGI middleware behind the sign-in: how much each principal may ask.

    Args:
        app: What is behind it.
        rates: The limits.
        clock: Seconds.
    """

    def __init__(
        self, app: ASGIApp, rates: Rates, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._buckets = Buckets(rates.per_caller, rates.per_caller * _BURST, clock=clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, unless its caller asks too much."""
        caller = scope.get("state", {}).get("caller")
        if caller is not None:
            _demand(self._buckets.take(caller.name), f"{caller.name} asks too much")
        await self._app(scope, receive, send)


def _demand_one_end(scope: Scope) -> None:
    """Refuse a body that ends in two ways: a proxy may go by the other one.

    Then what it takes for the next request is not the one we would answer.
    """
    names = {name for name, _ in scope["headers"]}
    if {b"content-length", b"transfer-encoding"} <= names:
        raise refusal(
            400,
            "the body says in two ways where it ends",
            advice="send Content-Length or Transfer-Encoding, not both",
            headers={"Connection": "close"},
        )


def _demand(wait: float, what: str) -> None:
    if wait:
        raise _too_many(what, max(1, math.ceil(wait)))


def _too_many(what: str, seconds: int) -> HttpRefusal:
    return refusal(
        429,
        f"{what}: nothing was done",
        advice=f"ask again in {seconds} s, and less often; server.rates says how often",
        headers={"Retry-After": str(seconds)},
    )


def _neighbour(scope: Scope) -> str:
    """Whom an address belongs to, as well as one can say."""
    host = str((scope.get("client") or ("",))[0])
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:64]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, _PREFIX), strict=False))
    return str(address)


def _shown(scope: Scope) -> bytes:
    """What stands for what was shown at the sign-in, so that it need not be kept itself."""
    given = Headers(scope=scope).get("authorization", "")
    return hashlib.sha256(given.encode()).digest()
