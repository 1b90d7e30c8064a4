"""Clients: each owns one application and asks, in an order drawn before the run began."""

import contextlib
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.chaos.history import ENDED, Call
from tests.chaos.record import Recorder, now

_TIMEOUT = 5.0
_TRIES = 12
_OPEN = 2
_KEPT = ("id", "state", "phase", "outcome", "version", "code", "detail", "number", "kind")
_ACTS = {
    "deploy": 58, "again": 8, "cancel": 8, "cancel_back": 5, "rollback": 6, "redeploy": 4,
    "lock": 4, "read": 7,
}  # fmt: skip
_MODES = {"long": 12, "ok": 45, "bad": 8, "sick": 7, "slip": 10, "brood": 8, "deaf": 12}


@dataclass(frozen=True)
class Act:
    """One thing a client will do, and how long it rests afterwards."""

    number: int
    what: str
    environment: str
    version: str
    rest: float


def plan(
    seed: int, client: str, count: int, environments: tuple[str, ...], modes: tuple[str, ...] = ()
) -> list[Act]:
    """What a client will do: a function of the seed alone, and of the modes it is kept to."""
    odds = {mode: _MODES[mode] for mode in modes} or _MODES
    draw = random.Random(f"{seed} {client}")  # noqa: S311 - to be repeated, not to be secret
    acts = []
    for number in range(count):
        what = draw.choices(list(_ACTS), list(_ACTS.values()))[0] if number else "deploy"
        mode = draw.choices(list(odds), list(odds.values()))[0]
        # Some outlast a takeover: only those show whether the earlier owner's hook is dead by then.
        span = (7000, 12000, 8000) if mode in ("long", "deaf") else (150, 3000, 700)
        milliseconds = int(draw.triangular(*span))
        version = f"{number}.{milliseconds}.{mode}"
        rest = draw.uniform(0.1, 1.2)
        acts.append(Act(number, what, draw.choice(environments), version, rest))
    return acts


def calm_end(version: str) -> str:
    """How a deploy of this version ends when nothing disturbs it."""
    return "badly" if version.endswith((".bad", ".sick")) else "well"


@dataclass
class Client(threading.Thread):
    """Performs its acts until told to stop; everything is recorded."""

    application: str
    url: str
    token: str
    acts: list[Act]
    recorder: Recorder
    stop: threading.Event
    mine: dict[str, str] = field(default_factory=dict)
    calm: dict[str, str] = field(default_factory=dict)
    crash: BaseException | None = None

    def __post_init__(self) -> None:
        super().__init__(name=f"client {self.application}", daemon=True)
        self._http = httpx2.Client(trust_env=False, timeout=_TIMEOUT)
        self._last: tuple[str, Mapping[str, Any], str] | None = None

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        """All acts, or as many as there is time for."""
        try:
            for act in self.acts:
                self._wait_for_room()
                if self.stop.is_set():
                    return
                getattr(self, f"_{act.what}")(act)
                self.stop.wait(act.rest)
        except BaseException as error:  # noqa: BLE001 - handed to the controller
            self.crash = error
        finally:
            self._http.close()

    def _wait_for_room(self) -> None:
        while not self.stop.is_set() and len(self._open()) >= _OPEN:
            self.stop.wait(0.5)

    def _open(self) -> list[str]:
        """Deploys of mine that have not ended, as far as one can tell."""
        with contextlib.suppress(httpx2.HTTPError):
            query = {"application": self.application, "limit": 50}
            answer = self._http.get(f"{self.url}/api/v1/deploys", params=query, headers=self._head)
            if answer.status_code == 200:
                for item in answer.json()["items"]:
                    self.mine[item["id"]] = item["state"]
        return [deploy for deploy, state in self.mine.items() if state not in ENDED]

    @property
    def _head(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    # Acts

    def _deploy(self, act: Act, kind: str = "deploy") -> None:
        body: dict[str, Any] = {"application": self.application, "environment": act.environment}
        body |= {"kind": kind} if kind != "deploy" else {"version": act.version}
        if kind == "deploy":
            self.calm[self._nonce(act)] = calm_end(act.version)
        self._ask(kind, "/deploys", body, act)

    def _redeploy(self, act: Act) -> None:
        self._deploy(act, "redeploy")

    def _rollback(self, act: Act) -> None:
        body = {"application": self.application, "environment": act.environment}
        self._ask("rollback", "/rollbacks", body, act)

    def _again(self, act: Act) -> None:
        """The last request once more with its key."""
        if self._last is None:
            self._deploy(act)
            return
        path, body, key = self._last
        self._send("again", path, body, key, nonce=body["reason"])

    def _cancel(self, act: Act, *, rollback: bool = False) -> None:
        waiting = self._open()
        if waiting:
            deploy = waiting[act.number % len(waiting)]
            body = {"rollback": rollback, "reason": self._nonce(act)}
            about = {"deploy": deploy, "rollback": rollback}
            self._send("cancel", f"/deploys/{deploy}/cancel", body, self._nonce(act), about=about)

    def _cancel_back(self, act: Act) -> None:
        self._cancel(act, rollback=True)

    def _lock(self, act: Act) -> None:
        body = {"application": self.application, "environment": act.environment}
        body |= {"reason": self._nonce(act)}
        made = self._send("lock", "/locks", body, self._nonce(act))
        self.stop.wait(2.0)
        if made is not None and made.is_good:
            self._send("unlock", f"/locks/{made.answer['id']}", None, None, method="DELETE")

    def _read(self, act: Act) -> None:
        """The log of one of mine, as somebody who follows it."""
        if not self.mine:
            return
        deploy = list(self.mine)[-1 - act.number % min(len(self.mine), 3)]
        with contextlib.suppress(httpx2.HTTPError):
            answer = self._http.get(f"{self.url}/api/v1/deploys/{deploy}/logs", headers=self._head)
            if answer.status_code == 200:
                self.recorder.lines(deploy, answer.json()["items"], is_final=False)

    # Asking

    def _nonce(self, act: Act) -> str:
        return f"{self.application}-{act.number}"

    def _ask(self, what: str, path: str, body: dict[str, Any], act: Act) -> None:
        nonce = self._nonce(act)
        body |= {"reason": nonce}
        self._last = (path, body, nonce)
        self._send(what, path, body, nonce, nonce=nonce)

    def _send(  # noqa: PLR0913 - one request and what the history needs to know of it
        self,
        what: str,
        path: str,
        body: Mapping[str, Any] | None,
        key: str | None,
        *,
        nonce: str | None = None,
        about: Mapping[str, Any] | None = None,
        method: str = "POST",
    ) -> Call | None:
        """Ask until there is an answer, with one key: as a pipeline does."""
        call = None
        for turn in range(_TRIES):
            number, sent = self.recorder.number(), now()
            status, answer = self._once(method, path, body, key)
            call = Call(
                number, self.application, what, sent, now(), status,
                key=key, nonce=nonce, about=about or {}, answer=answer,
            )  # fmt: skip
            self.recorder.call(call)
            if status is not None and status < 500:
                if "id" in answer and "state" in answer:
                    self.mine[answer["id"]] = answer["state"]
                return call
            if self.stop.wait(min(0.2 * 2**turn, 2.0)) and turn:
                return call
        return call

    def _once(
        self, method: str, path: str, body: Mapping[str, Any] | None, key: str | None
    ) -> tuple[int | None, dict[str, Any]]:
        head = self._head | ({"Idempotency-Key": key} if key else {})
        more: dict[str, Any] = {} if body is None else {"json": body}
        try:
            answer = self._http.request(method, f"{self.url}/api/v1{path}", headers=head, **more)
        except httpx2.HTTPError:
            return None, {}
        try:
            found = answer.json()
        except ValueError:
            return answer.status_code, {"detail": answer.text[:500]}
        return answer.status_code, {name: found[name] for name in _KEPT if name in found}


def wait_all(clients: list[Client], limit: float) -> None:
    """Wait for the ends of all threads."""
    end = time.monotonic() + limit
    for client in clients:
        client.join(max(0.0, end - time.monotonic()))
        if client.crash is not None:
            raise client.crash
