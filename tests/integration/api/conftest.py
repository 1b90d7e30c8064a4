"""An API over use cases that are played by a small fake."""

import io
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI
from starlette.testclient import TestClient

from manent_server.api.app import create_app, create_probe_app
from manent_server.api.calls import Calls
from manent_server.domain.access import Caller, everywhere
from manent_server.domain.errors import NotFound, NotSignedIn
from manent_server.observability import log
from manent_server.observability.metrics import Metrics
from manent_server.observability.redaction import Redactor
from manent_server.settings.values import Rates

Connect = Callable[[Mapping[str, str]], TestClient]

ADMIN = {"Authorization": "Bearer admin-token"}
VIEWER = {"Authorization": "Bearer viewer-token"}
BODY_LIMIT = 64 * 1024
NO_LIMIT = Rates(per_caller=0, public=0, failed_sign_ins=0)
DEPLOY = {
    "id": "0123456789abcdef0123",
    "number": 12,
    "application": "shop",
    "environment": "production",
    "version": "1.10",
    "kind": "deploy",
    "state": "ENQUEUED",
}
EXECUTORS = [
    {"id": "w0", "registered": True, "alive": True, "pending": None, "recovered_by": None},
    {"id": "w1", "registered": False, "alive": False, "pending": {"0.1.0": 2}},
]
RERUN = {"of": "d1", "root": "d1", "pass": 2, "from": "deploy:web-1", "carried": ["prepare"]}
SCHEDULE = {
    "id": "s1",
    "name": "nightly",
    "application": "shop",
    "environment": "staging",
    "cron": "30 2 * * *",
    "timezone": "Europe/Rome",
    "from": "staging",
    "overlap": "skip",
    "next": [{"at": "2027-10-31T00:30:00Z", "local": "2027-10-31T02:30:00+02:00"}],
}
LOCK = {"id": "l1", "reason": "audit", "owner": "ann", "automatic": False}

SINK: dict[str, Any] = {
    "name": "board",
    "plugin": "webhook",
    "events": ["*"],
    "applications": [],
    "environments": [],
    "is_on": False,
    "off_reason": "answered 410",
    "waiting": 0,
    "dead": 3,
    "url": "https://hooks.example/not-for-answers",
}
NOTICE: dict[str, Any] = {
    "id": "n1",
    "sink": "board",
    "state": "dead",
    "created_at": "2027-01-01T00:00:00Z",
    "tries": 4,
    "expires_at": "2027-01-02T00:00:00Z",
    "error": "answered 500",
    "event": {
        "id": "e1",
        "position": 1,
        "at": "2027-01-01T00:00:00Z",
        "type": "lock.set",
        "actor": "ann",
        "detail": {},
    },
}


RECORD: dict[str, Any] = {
    "id": "r1",
    "number": 7,
    "hash": "0" * 64,
    "at": "2027-01-01T00:00:00.000000Z",
    "actor": "ann",
    "action": "lock.set",
    "channel": "cli",
    "after": {"id": "l1"},
}


class FakeUsecases:
    """Remembers what it was asked and answers from plain values.

    `fail_with` makes every use case but signing in raise; `lines` is the log of any deploy.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.fail_with: Exception | None = None
        self.tokens = {
            "admin-token": Caller("ann", everywhere("admin")),
            "viewer-token": Caller("vic", everywhere("viewer")),
        }
        self.lines: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.later: list[dict[str, Any]] = []
        self.later_after = 2
        self.at_end: Callable[[], object] = lambda: None
        self.has_ended = True
        self.more: dict[str, Any] = {}
        self.delay = 0.0
        self.report: dict[str, Any] = {
            "ready": True,
            "draining": False,
            "running": 0,
            "reasons": [],
        }

    def calls(self) -> Calls:
        doing = ("submit", "roll_back", "cancel", "abandon", "rerun", "retry", "resolve")
        answers: dict[str, Callable[..., Any]] = {name: lambda *_: DEPLOY for name in doing}
        answers |= {name: lambda *_: LOCK for name in ("mark", "lift")}
        changing = ("schedule", "pause_schedule", "resume_schedule", "delete_schedule")
        answers |= {name: lambda *_: SCHEDULE for name in (*changing, "schedule_of")}
        looking = ("schedules", "schedule_runs", "schedule_preview", "schedule_draft")
        answers |= {name: lambda *_: {"items": [], "next": None} for name in looking}
        answers |= {
            name: lambda *_: {"items": [], "next": None}
            for name in ("steps", "attempts", "inventory", "environments", "applications", "marks")
        }
        answers |= {
            "newest_end": lambda: "same",
            "executors": lambda *_: {"version": "0.1.0", "executors": EXECUTORS},
            "recover": lambda request: {
                "executor": request.executor,
                "dry_run": request.dry_run,
                "workflows": [],
            },
            "forget": lambda executor: {"id": executor, "forgotten": True},
            "deploys": lambda *_: {"items": [DEPLOY], "next": "cursor"},
            "deploy": self._deploy,
            "environment": lambda name: {"name": name, "tier": "production"},
            "rerun_plan": lambda *_: {**DEPLOY, **RERUN},
            "explain": lambda *_: {"id": "d1", "state": "ENQUEUED", "summary": "it is next"},
            "log": self._log,
            "events": self._events,
            "newest_event": self._newest_event,
            "sinks": lambda: {"items": [SINK]},
            "resend_all": lambda _: SINK,
            "notices": lambda: {"items": [NOTICE], "next": "n0"},
            "resend": lambda _: NOTICE,
            "audit": lambda _: {"items": [RECORD], "next": "r0"},
            "ready": lambda: self.report,
        }
        found = {name: self._remembered(name, answer) for name, answer in answers.items()}
        return Calls(authenticate=self._authenticate, **found)

    def last(self) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        return self.asked[-1]

    def _remembered(self, name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def call(desk: Any, *arguments: Any, **keywords: Any) -> Any:
            self.asked.append((name, arguments, keywords))
            if name == "submit":
                time.sleep(self.delay)
            if self.fail_with is not None:
                raise self.fail_with
            if name in ("log", "events"):
                return answer(*arguments, **keywords)
            return answer(*arguments)

        return call

    def _authenticate(self, desk: Any, token: str, **_: Any) -> Caller:
        if isinstance(self.fail_with, NotSignedIn):
            raise self.fail_with
        if token not in self.tokens:
            raise NotSignedIn("the token is unknown, expired or revoked", next="sign in again")
        return self.tokens[token]

    def _deploy(self, address: str) -> dict[str, Any]:
        if address.startswith("missing"):
            raise NotFound("there is no such deploy")
        return {**DEPLOY, **self.more, "state": "SUCCESS" if self.has_ended else "PENDING"}

    def _log(
        self, address: str, *, after: int, limit: int, tail: int | None = None
    ) -> dict[str, Any]:
        self._deploy(address)
        if tail is not None:
            after = max(after, len(self.lines) - tail)
        items = [line for line in self.lines if line["sequence"] > after][:limit]
        return {"items": items, "next": None, "ended": self.has_ended}

    def _events(self, *, after: int, limit: int, **_: Any) -> dict[str, Any]:
        items = [event for event in self.events if event["position"] > after][:limit]
        if not items and not self.later:
            self.at_end()
        return {"items": items, "next": items[-1]["position"] if items else after}

    def _newest_event(self) -> int:
        """What is told of later comes after a few questions; at last the process stops."""
        self.later_after -= 1
        newest = max((event["position"] for event in self.events), default=0)
        if self.later_after < 0 and self.later:
            self.events, self.later = [*self.events, *self.later], []
        elif self.later_after < -6 and not self.later:
            self.at_end()
        return newest


def line(sequence: int, text: str = "hello") -> dict[str, Any]:
    return {"sequence": sequence, "text": text, "step": "deploy:web-1", "attempt": 1}


@pytest.fixture(autouse=True)
def written(redactor: Redactor) -> Iterator[io.StringIO]:
    """What is logged meanwhile."""
    root, engine = logging.getLogger(), logging.getLogger("dbos")
    before = (root.handlers, root.level, engine.handlers, engine.propagate)
    out = io.StringIO()
    log.configure("info", "json", redactor, stream=out)
    yield out
    root.handlers, root.level, engine.handlers, engine.propagate = before


@pytest.fixture
def fake() -> FakeUsecases:
    return FakeUsecases()


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(["hunter22"])


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def app(fake: FakeUsecases, redactor: Redactor, metrics: Metrics) -> FastAPI:
    return make_app(fake, metrics=metrics, redactor=redactor)


@pytest.fixture
def probe_app(fake: FakeUsecases, metrics: Metrics) -> FastAPI:
    return create_probe_app(desk(), calls=fake.calls(), metrics=metrics)


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    """The event loop of every client: to start one for each test costs more than the test."""
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def connect(app: FastAPI, portal: BlockingPortal) -> Connect:
    """A client of the application that sends these headers."""

    def connected(headers: Mapping[str, str]) -> TestClient:
        client = TestClient(app, headers=dict(headers))
        client.portal = portal
        return client

    return connected


@pytest.fixture
def client(connect: Connect) -> TestClient:
    return connect(ADMIN)


def make_app(fake: FakeUsecases, *, rates: Rates = NO_LIMIT, **more: Any) -> FastAPI:
    return create_app(desk(rates), calls=fake.calls(), **more)


def desk(rates: Rates = NO_LIMIT) -> Any:
    server = SimpleNamespace(body_limit=BODY_LIMIT, header_limit=16 * 1024, rates=rates)
    settings = SimpleNamespace(server=server)
    made = SimpleNamespace(settings=lambda: settings, report=dict)
    made.opened = lambda: made
    made.seen_by = lambda _: made
    return made
