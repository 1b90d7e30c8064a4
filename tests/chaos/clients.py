"""Clients: each owns one application and asks, in an order drawn before the run began."""

import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos import people
from tests.chaos.asking import Asker, Wish
from tests.chaos.history import ENDED, Call
from tests.chaos.people import Person
from tests.chaos.record import Recorder
from tests.chaos.stage import GATES

_OPEN = 2
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
    is_rejected: bool = False


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
        environment = draw.choice(environments)
        no = environment in GATES and people.is_rejected(seed, _nonce(client, number))
        acts.append(Act(number, what, environment, version, rest, no))
    return acts


def calm_end(act: Act) -> str:
    """How a deploy ends when nothing disturbs it: by its version, unless somebody rejects it."""
    is_bad = act.version.endswith((".bad", ".sick"))
    return "badly" if is_bad or act.is_rejected else "well"


def _nonce(client: str, number: int) -> str:
    return f"{client}-{number}"


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
        self._asker = Asker(
            self.application, self.url, self.token, recorder=self.recorder, stop=self.stop
        )
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
            self._asker.close()

    def _wait_for_room(self) -> None:
        while not self.stop.is_set() and len(self._open()) >= _OPEN:
            self.stop.wait(0.5)

    def _open(self) -> list[str]:
        """Deploys of mine that have not ended, as far as one can tell."""
        found = self._asker.get("/deploys", application=self.application, limit=50)
        for item in found["items"] if found is not None else ():
            self.mine[item["id"]] = item["state"]
        return [deploy for deploy, state in self.mine.items() if state not in ENDED]

    # Acts

    def _deploy(self, act: Act, kind: str = "deploy") -> None:
        body: dict[str, Any] = {"application": self.application, "environment": act.environment}
        body |= {"kind": kind} if kind != "deploy" else {"version": act.version}
        if kind == "deploy":
            self.calm[self._nonce(act)] = calm_end(act)
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
        if made.is_good:
            self._send("unlock", f"/locks/{made.answer['id']}", None, None, method="DELETE")

    def _read(self, act: Act) -> None:
        """The log of one of mine, as somebody who follows it."""
        if not self.mine:
            return
        deploy = list(self.mine)[-1 - act.number % min(len(self.mine), 3)]
        found = self._asker.get(f"/deploys/{deploy}/logs")
        if found is not None:
            self.recorder.lines(deploy, found["items"], is_final=False)

    # Asking

    def _nonce(self, act: Act) -> str:
        return _nonce(self.application, act.number)

    def _ask(self, what: str, path: str, body: dict[str, Any], act: Act) -> None:
        nonce = self._nonce(act)
        body |= {"reason": nonce}
        self._last = (path, body, nonce)
        self._send(what, path, body, nonce, nonce=nonce)

    def _send(self, *of: Any, **more: Any) -> Call:
        """Ask as a `Wish` says it, and remember the deploy that is answered."""
        call = self._asker.send(Wish(*of, **more))
        if call.status is not None and call.status < 500 and {"id", "state"} <= call.answer.keys():
            self.mine[call.answer["id"]] = call.answer["state"]
        return call


def wait_all(clients: Sequence[Client | Person], limit: float) -> None:
    """Wait for the ends of all threads."""
    end = time.monotonic() + limit
    for client in clients:
        client.join(max(0.0, end - time.monotonic()))
        if client.crash is not None:
            raise client.crash
