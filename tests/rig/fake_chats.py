"""Servers of chats, in a thread: as much of each as manent calls, and what they were told."""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True)
class Call:
    """One request as it came."""

    method: str
    path: str
    token: str
    body: Any


@dataclass
class ChatServer:
    """Slack, Mattermost or a bridge on a free port of 127.0.0.1.

    Attributes:
        calls: What came, in order.
        messages: What the channel shows now, by id.
        refusals: Answers to the next calls instead of the right ones: status and JSON.
        forgets: How many of the next messages are posted without an answer.
    """

    calls: list[Call] = field(default_factory=list)
    messages: dict[str, Any] = field(default_factory=dict)
    refusals: list[tuple[int, Any]] = field(default_factory=list)
    forgets: int = 0

    def __enter__(self) -> Self:
        chat = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                chat._serve(self)

            def do_POST(self) -> None:
                chat._serve(self)

            def do_PUT(self) -> None:
                chat._serve(self)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def called(self, path: str) -> list[Call]:
        """The calls of one method."""
        return [call for call in self.calls if path in call.path]

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers.get("Content-Length") or 0)
        content = request.rfile.read(length)
        body = json.loads(content) if content else None
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        path = unquote(urlsplit(request.path).path)
        self.calls.append(Call(request.command, path, token, body))
        status, answer = self.refusals.pop(0) if self.refusals else (200, self._answer(path, body))
        if self.forgets and "post" in path.lower() and request.command == "POST":
            self.forgets -= 1
            request.close_connection = True
            return
        sent = json.dumps(answer).encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(sent)))
        request.end_headers()
        request.wfile.write(sent)

    def _answer(self, path: str, body: Any) -> Any:
        parts = path.strip("/").split("/")
        match parts:
            case ["chat.postMessage"] | ["hook"] | ["api", "v4", "posts"]:
                name = f"m{len(self.messages) + 1}"
                self.messages[name] = body
                return {"ok": True, "ts": name, "id": name}
            case ["chat.update"]:
                self.messages[body["ts"]] = body
            case ["api", "v4", "posts", post, "patch"]:
                self.messages[post] = self.messages[post] | body
            case ["conversations.history"]:
                return {"ok": True, "messages": [m | {"ts": n} for n, m in self.messages.items()]}
            case ["api", "v4", "channels", _, "posts"]:
                return {"posts": {n: m | {"id": n} for n, m in self.messages.items()}}
        return {"ok": True, "ts": (body or {}).get("ts"), "id": parts[-2:][0]}
