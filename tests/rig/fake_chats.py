"""Servers of chats, in a thread: as much of each as manent calls, and what they were told."""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

ROOM = "!room:example"
ALONE = "!alone:example"
ME = "@manent:example"
"""Of Matrix: the room that is read, the one for a person alone, and our own id."""


@dataclass(frozen=True)
class Call:
    """One request as it came."""

    method: str
    path: str
    token: str
    body: Any
    query: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class ChatServer:
    """Slack, Mattermost, a homeserver or a bridge on a free port of 127.0.0.1.

    Attributes:
        calls: What came, in order.
        messages: What the channel shows now, by id.
        refusals: Answers to the next calls instead of the right ones: status and JSON.
        forgets: How many of the next messages are posted without an answer.
        said: What people said in the room of Matrix, in order.
    """

    calls: list[Call] = field(default_factory=list)
    messages: dict[str, Any] = field(default_factory=dict)
    refusals: list[tuple[int, Any]] = field(default_factory=list)
    forgets: int = 0
    said: list[Any] = field(default_factory=list)

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
        parts = urlsplit(request.path)
        path = unquote(parts.path)
        self.calls.append(Call(request.command, path, token, body, parse_qs(parts.query)))
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
            case ["_matrix", "client", "v3", *rest]:
                return self._homeserver(rest, body)
        return {"ok": True, "ts": (body or {}).get("ts"), "id": parts[-2:][0]}

    def _homeserver(self, parts: list[str], body: Any) -> Any:
        """Matrix, as far as one room goes: what was `said` there is read from `since` on."""
        match parts:
            case ["account", "whoami"]:
                return {"user_id": ME}
            case ["createRoom"]:
                return {"room_id": ALONE}
            case ["rooms", room, "send", _, name]:
                # Under one name a message is sent once.
                place = f"{room} {name}"
                self.messages.setdefault(place, body)
                return {"event_id": f"${list(self.messages).index(place)}"}
            case ["sync"]:
                since = self.calls[-1].query.get("since", ["0"])[0]
                timeline = {"events": self.said[int(since) :]}
                joined = {ROOM: {"timeline": timeline}}
                return {"next_batch": str(len(self.said)), "rooms": {"join": joined}}
        return {}

    def react(self, by: str, about: str, sign: str) -> None:
        """Somebody puts a sign to a message."""
        relates = {"rel_type": "m.annotation", "event_id": about, "key": sign}
        self._say(by, "m.reaction", {"m.relates_to": relates})

    def reply(self, by: str, about: str, words: str) -> None:
        """Somebody answers a message."""
        relates = {"m.in_reply_to": {"event_id": about}}
        self._say(by, "m.room.message", {"body": words, "m.relates_to": relates})

    def _say(self, by: str, kind: str, content: Any) -> None:
        name = f"$said{len(self.said)}"
        event = {"type": kind, "event_id": name, "sender": by, "content": content}
        self.said.append(event)
