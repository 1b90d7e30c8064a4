"""A small HTTP server that speaks the shapes of the API: deploys that end as a test tells them.

It keeps no rules: what the server decides is not its matter. It is there for what the network
and the server can do to a client: refuse, fail, cut a stream, restart, answer late or not at all.
"""

import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tests.rig.fake_http import Refusal, Seen, Server

ENDED = {"SUCCESS", "ERROR", "CANCELLED"}
Object = dict[str, Any]


@dataclass(frozen=True)
class Script:
    """How the next deploys go: from so many seconds after acceptance, these fields hold.

    Args:
        changes: `(seconds, fields of the deploy)`, in order.
        steps: `(seconds, fields of a step)`; a later one of the same name replaces it.
        lines: `(seconds, step, text)` of the log, numbered from 1.
    """

    changes: Sequence[tuple[float, Mapping[str, Any]]] = ()
    steps: Sequence[tuple[float, Mapping[str, Any]]] = ()
    lines: Sequence[tuple[float, str, str]] = ()


def ends(state: str, outcome: str | None, *, after: float = 0.0, **fields: Any) -> Script:
    """A deploy that runs and ends so, with one step and two lines on the way."""
    step = "succeeded" if state == "SUCCESS" else "failed"
    return Script(
        changes=[
            (0.0, {"state": "PENDING", "phase": "deploying"}),
            (after, {"state": state, "outcome": outcome, "phase": None, **fields}),
        ],
        steps=[
            (0.0, {"step": "deploy:web-1", "state": "running", "attempts": 1}),
            (after, {"step": "deploy:web-1", "state": step, "attempts": 1}),
        ],
        lines=[(0.0, "deploy:web-1", "copying"), (after, "deploy:web-1", "done")],
    )


GOOD = ends("SUCCESS", "deployed")


def _schedule(body: Object) -> Object:
    """What any change of a schedule answers, and a preview of one."""
    moment = {"at": "2027-10-31T00:30:00Z", "local": "2027-10-31T02:30:00+02:00"}
    return {"id": "schedule-0", **body, "next": [moment], "items": [moment]}


class FakeApi:
    """The server; use it as a context manager.

    Attributes:
        script: How the deploys accepted from now on go.
        refusals: What is answered wrongly, tried in order.
        cut_after: Lines after which the next streams are cut, one number each.
        seen: Every request, in order.
    """

    def __init__(self) -> None:
        self.script = GOOD
        self.refusals: list[Refusal] = []
        self.cut_after: list[int] = []
        self.seen: list[Seen] = []
        self.locks: list[Object] = []
        self.beside_a_lock: Object = {}
        self.fixed: dict[str, Any] = {}
        self.version = {"version": "0.1.0", "workflow_version": "0.1.0", "minimum_client": "0.1.0"}
        self._lock = threading.RLock()
        self._deploys: dict[str, tuple[float, Object, Script]] = {}
        self._keys: dict[str, Object] = {}
        self._server: Server | None = None
        self._port = 0

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    def up(self) -> None:
        """Listen, again on the same port."""
        self._server = Server(self, self._port)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Stop listening; what is known stays."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def wrap(self, context: ssl.SSLContext) -> None:
        """Speak TLS from now on."""
        if self._server is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    @property
    def is_up(self) -> bool:
        """Whether it listens."""
        return self._server is not None

    def add(self, script: Script | None = None, **fields: Any) -> Object:
        """Accept a deploy."""
        with self._lock:
            number = len(self._deploys) + 1
            deploy: Object = {
                "id": f"0197-deploy-{number:04d}", "number": number, "application": "shop",
                "environment": "production", "version": "1.0.0", "kind": "deploy",
                "state": "ENQUEUED", "phase": "queued", "outcome": None, "position": None,
                "url": f"{self.url}/deploys/{number}", "requested_at": "2027-01-31T18:00:00Z",
                "requested_by": "ci", "error": None, "cancel": None, "superseded_by": None,
                "warnings": [], "targets": [], **fields,
            }  # fmt: skip
            self._deploys[deploy["id"]] = (time.monotonic(), deploy, script or self.script)
            return deploy

    def requests(self, method: str, path: str) -> list[Seen]:
        """The requests of this method whose path begins so."""
        return [one for one in self.seen if one.method == method and one.path.startswith(path)]

    # What the handler asks

    def refusal(self, method: str, path: str) -> Refusal | None:
        """The wrong answer that is due, if one is."""
        with self._lock:
            for one in self.refusals:
                if one.times and one.method == method and path.startswith(one.path):
                    one.times -= 1
                    return one
        return None

    def post(self, parts: Sequence[str], body: Any, key: str) -> tuple[int, Any]:
        """Do what a POST asks for, once for each key."""
        with self._lock:
            if key in self._keys:
                return 202, self.deploy(self._keys[key]["id"])
            if parts[-1] in {"cancel", "abandon", "resend"}:
                return 200, self._changed(parts, body)
            if parts[0] == "links":
                return 200, {"chat": "team", "account": "U7", "login": "ann", "asked": body}
            if parts[0] in {"locks", "schedules"}:
                return 201, self._made(parts[0], body)
            given = {name: value for name, value in body.items() if name != "to"}
            kind = "rollback" if parts[0] == "rollbacks" else body.get("kind")
            version = body.get("to") or body.get("version") or "0.9.0"
            if parts[-1] in {"rerun", "retry"}:
                before = self.deploy(parts[1]) or {}
                given, kind, version = {"rerun_of": before["id"]}, "deploy", before["version"]
            self._keys[key] = self.add(**{**given, "kind": kind, "version": version})
            return 202, self.deploy(self._keys[key]["id"])

    def _changed(self, parts: Sequence[str], body: Any) -> Any:
        """What there is already, after the change."""
        if parts[-1] == "resend":
            return self.fixed["/".join(parts[:2])]
        change = self._cancel if parts[-1] == "cancel" else self._abandon
        return change(parts[1], body)

    def _made(self, what: str, body: Object) -> Object:
        if what == "schedules":
            return _schedule(body)
        self.locks.append(
            {"id": f"lock-{len(self.locks)}", "owner": "ci", **body, **self.beside_a_lock}
        )
        return self.locks[-1]

    def get(self, parts: Sequence[str], query: Mapping[str, list[str]]) -> Any:
        """What a GET answers; None for nothing of that name."""
        lists = {"deploys": self._page(query), "locks": {"items": self.locks, "next": None}}
        lists["marks"] = lists["locks"]
        fixed = {"version": self.version, **lists, **self.fixed}
        if "/".join(parts) in fixed:
            return fixed["/".join(parts)]
        if parts[0] != "deploys" or self.deploy(parts[1]) is None:
            return None
        return self._part(parts[1], "".join(parts[2:]), query)

    def delete(self, parts: Sequence[str]) -> Any:
        """Lift a lock, delete a schedule."""
        if parts[0] == "schedules":
            return _schedule({})
        with self._lock:
            found = [one for one in self.locks if one["id"] == parts[-1]]
            self.locks = [one for one in self.locks if one not in found]
        return found[0] if found else None

    def deploy(self, name: str) -> Object | None:
        """The deploy as it is now."""
        found = self._deploys.get(self._id(name))
        if found is None:
            return None
        began, deploy, script = found
        for after, fields in script.changes:
            if time.monotonic() - began >= after:
                deploy.update(fields)
        return deploy

    def lines(self, name: str, after: int) -> list[Object]:
        """The lines of the log that are there by now."""
        began, _, script = self._deploys[self._id(name)]
        now = time.monotonic() - began
        return [
            {"sequence": number, "at": "2027-01-31T18:00:00Z", "step": step, "attempt": 1,
             "stream": "out", "text": text, "executor": "w0"}
            for number, (at, step, text) in enumerate(script.lines, start=1)
            if number > after and at <= now
        ]  # fmt: skip

    def has_ended(self, name: str) -> bool:
        """Whether the deploy has ended."""
        return (self.deploy(name) or {}).get("state") in ENDED

    def _id(self, name: str) -> str:
        for deploy in [deploy for _, deploy, _ in self._deploys.values()]:
            numbered = f"{deploy['application']}/{deploy['environment']}#{deploy['number']}"
            if name in {deploy["id"], numbered} or deploy["id"].startswith(name):
                return str(deploy["id"])
        return name

    def _part(self, name: str, part: str, query: Mapping[str, list[str]]) -> Any:
        began, deploy, script = self._deploys[self._id(name)]
        if part == "steps":
            now = time.monotonic() - began
            done = [one for at, one in script.steps if at <= now]
            steps = {(one["step"], one.get("pass")): dict(one) for one in done}
            return {"items": list(steps.values()), "next": None}
        if part == "logs":
            after, limit = int(query.get("after", ["0"])[0]), int(query.get("limit", ["500"])[0])
            if "tail" in query:
                after = max(after, len(self.lines(name, 0)) - int(query["tail"][0]))
            items = self.lines(name, after)
            ended = self.has_ended(name) and len(items) <= limit
            shown = items[:limit]
            return {
                "items": shown,
                "next": shown[-1]["sequence"] if shown else after,
                "ended": ended,
            }
        if part == "explain":
            return {"id": deploy["id"], "state": deploy["state"], "phase": deploy["phase"],
                    "summary": "waits for deploy 7", "gates": [], "position": 2, "ahead": ["7"],
                    "blocked_by": {"id": "7", "executor": "w1", "alive": False},
                    "workers": {"pool": "default", "alive": 1, "lacking": []}}  # fmt: skip
        return self.deploy(name)

    def _page(self, query: Mapping[str, list[str]]) -> Object:
        limit = int(query.get("limit", ["50"])[0])
        states = {state.upper() for state in query.get("state", [])}
        found = [self.deploy(name) or {} for name in reversed(list(self._deploys))]
        found = [one for one in found if not states or one["state"] in states]
        start = int(query.get("before", ["0"])[0])
        more = str(start + limit) if len(found) > start + limit else None
        return {"items": found[start : start + limit], "next": more}

    def _abandon(self, name: str, body: Any) -> Object:
        began, deploy, _ = self._deploys[self._id(name)]
        deploy |= {"state": "CANCELLED", "outcome": "abandoned", "phase": None}
        deploy["warnings"] = [f"given up: {body['reason']}"]
        self._deploys[deploy["id"]] = (began, deploy, Script())
        return deploy

    def _cancel(self, name: str, body: Any) -> Object:
        began, deploy, _ = self._deploys[self._id(name)]
        cancel = {"by": "ci", "requested_at": "2027-01-31T18:00:00Z", **body}
        end = {"state": "CANCELLED", "outcome": "cancelled", "phase": None, "cancel": cancel}
        deploy.update(end)
        self._deploys[deploy["id"]] = (began, deploy, Script())
        return deploy
