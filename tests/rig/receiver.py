"""A receiver of webhooks, in a thread: it answers as told and remembers what came."""

import json
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

CERTIFICATE = Path(__file__).with_name("localhost.pem")


@dataclass(frozen=True)
class Letter:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        """Its body."""
        return json.loads(self.body)

    @property
    def event(self) -> Any:
        """The event as `/events` has it."""
        return self.json["data"]["customData"]


@dataclass
class Receiver:
    """Listens on a free port of 127.0.0.1.

    Attributes:
        status: What it answers.
        headers: What it sends with it.
        hang: Seconds it waits before it answers.
        trickle: Seconds between the bytes of an endless header.
        seen: What came.
    """

    is_secure: bool = False
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0.0
    trickle: float = 0.0
    seen: list[Letter] = field(default_factory=list)

    def __enter__(self) -> Self:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._receive(self)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_: Any) -> None:
                """A sender that hangs up is what some tests are about."""

        self._server = Server(("127.0.0.1", 0), Handler)
        if self.is_secure:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(CERTIFICATE)
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Its address."""
        scheme = "https" if self.is_secure else "http"
        return f"{scheme}://127.0.0.1:{self.port}/hook"

    def _receive(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Letter(request.path, headers, body, time.monotonic()))
        if self.trickle:
            self._trickle(request)
        self._closing.wait(self.hang)
        request.send_response(self.status)
        for name, value in self.headers.items():
            request.send_header(name, value)
        request.end_headers()

    def _trickle(self, request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not self._closing.wait(self.trickle):
            request.wfile.write(b"x")
            request.wfile.flush()
