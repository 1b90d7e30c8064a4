"""Asking as a program does: with one key until there is an answer, and everything is recorded."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.chaos.history import Call
from tests.chaos.record import Recorder, now

_TIMEOUT = 5.0
_TRIES = 12
_KEPT = ("id", "state", "phase", "outcome", "version", "code", "detail", "number", "kind",
         "message")  # fmt: skip


@dataclass(frozen=True)
class Wish:
    """One request, and what the history needs to know of it."""

    what: str
    path: str
    body: Mapping[str, Any] | None = None
    key: str | None = None
    nonce: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    method: str = "POST"


class Asker:
    """One who asks, by a name and a token; close it in the end."""

    def __init__(
        self, name: str, url: str, token: str, *, recorder: Recorder, stop: threading.Event
    ) -> None:
        self._name = name
        self._url = f"{url}/api/v1"
        self._head = {"Authorization": f"Bearer {token}"}
        self._recorder = recorder
        self._stop = stop
        self._http = httpx2.Client(trust_env=False, timeout=_TIMEOUT)

    def close(self) -> None:
        """Let go of its connections."""
        self._http.close()

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of a GET; None without a good answer."""
        try:
            answer = self._http.get(f"{self._url}{path}", params=query, headers=self._head)
        except httpx2.HTTPError:
            return None
        return answer.json() if answer.status_code == 200 else None

    def send(self, wish: Wish) -> Call:
        """Ask until there is an answer, with one key: as a pipeline does."""
        for turn in range(_TRIES):
            number, sent = self._recorder.number(), now()
            status, answer = self._once(wish)
            call = Call(
                number, self._name, wish.what, sent, now(), status,
                key=wish.key, nonce=wish.nonce, about=wish.about, answer=answer,
            )  # fmt: skip
            self._recorder.call(call)
            if status is not None and status < 500:
                return call
            if self._stop.wait(min(0.2 * 2**turn, 2.0)) and turn:
                return call
        return call

    def _once(self, wish: Wish) -> tuple[int | None, dict[str, Any]]:
        head = self._head | ({"Idempotency-Key": wish.key} if wish.key else {})
        more: dict[str, Any] = {} if wish.body is None else {"json": wish.body}
        try:
            answer = self._http.request(wish.method, self._url + wish.path, headers=head, **more)
        except httpx2.HTTPError:
            return None, {}
        try:
            found = answer.json()
        except ValueError:
            return answer.status_code, {"detail": answer.text[:500]}
        return answer.status_code, {name: found[name] for name in _KEPT if name in found}
