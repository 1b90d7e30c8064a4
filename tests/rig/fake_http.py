"""The HTTP side of the fake API: one request in, the right or the wrong answer out."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from tests.rig.fake_api import FakeApi

PREFIX = "/api/v1"
TOKEN = "manent-token-of-the-fake"  # noqa: S105 - of nothing


@dataclass(frozen=True)
class Seen:
    """One request as it came."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: Any


@dataclass
class Refusal:
    """An answer given in place of the right one, so many times.

    Args:
        method: Of the requests it is for.
        path: What their path begins with, below the prefix.
        status: The status; None closes the connection without an answer.
        body: The body, JSON if it is no text.
        times: How often; negative for always.
        does_it: Whether what was asked is done all the same, the answer being lost.
        delay: Seconds before it answers.
    """

    method: str
    path: str
    status: int | None
    body: Any = None
    times: int = 1
    does_it: bool = False
    delay: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


class Server(ThreadingHTTPServer):
    """Listens for the fake API; each connection is a thread that nobody waits for."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, api: "FakeApi", port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.api = api

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what the tests are about."""


def problem(status: int, code: str, **fields: Any) -> dict[str, Any]:
    """A problem body."""
    return {
        "type": f"urn:manent:problem:{code}",
        "title": "A title",
        "status": status,
        "detail": f"a detail of {code}",
        "code": code,
        "next": f"do this about {code}",
        "request_id": "request-1",
        **fields,
    }


_NOT_FOUND = (404, problem(404, "not_found"))


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: "Server"
    protocol_version = "HTTP/1.1"
    # Head and body are two writes; a client that keeps its connection would wait for the second.
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        asked = urlsplit(self.path)
        raw = asked.path.removeprefix(PREFIX)
        query = parse_qs(asked.query, keep_blank_values=True)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.api.seen.append(Seen(method, raw, query, headers, body))
        parts = [unquote(part) for part in raw.split("/")[1:]]
        refusal = self.server.api.refusal(method, raw)
        if refusal is not None:
            self._refuse(refusal, parts, body)
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._send(401, problem(401, "not_signed_in"))
        elif "event-stream" in self.headers.get("Accept", "") and self._knows(parts[1]):
            self._stream(parts[1])
        elif method == "POST":
            self._send(*self.server.api.post(parts, body, self.headers["Idempotency-Key"]))
        else:
            found = (
                self.server.api.get(parts, query)
                if method == "GET"
                else self.server.api.delete(parts)
            )
            self._send(*((200, found) if found is not None else _NOT_FOUND))

    def _refuse(self, refusal: Refusal, parts: Sequence[str], body: Any) -> None:
        if refusal.does_it:
            self.server.api.post(parts, body, self.headers["Idempotency-Key"])
        time.sleep(refusal.delay)
        if refusal.status is None:
            self.close_connection = True
            return
        self._send(refusal.status, refusal.body, refusal.headers)

    def _send(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        kind = "text/html" if isinstance(body, str) else "application/json"
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, name: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        after = int(self.headers.get("Last-Event-ID") or 0)
        left = self.server.api.cut_after.pop(0) if self.server.api.cut_after else None
        while self.server.api.is_up:
            lines = self.server.api.lines(name, after)
            for item in lines:
                event = f"id: {item['sequence']}\nevent: line\ndata: {json.dumps(item)}\n\n"
                if left == 0:
                    self._write(event[:-9])  # half an event must not be taken for a whole one
                    return
                left = None if left is None else left - 1
                self._write(event)
                after = item["sequence"]
            if self.server.api.has_ended(name) and not lines:
                self._write(f"event: end\ndata: {json.dumps(self.server.api.deploy(name))}\n\n")
                return
            self._write(": still here\n\n")
            time.sleep(0.02)

    def _knows(self, name: str) -> bool:
        return self.server.api.deploy(name) is not None

    def _write(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()
