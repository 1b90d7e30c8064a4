"""A small HTTP service: says hello, says what it is, and says whether it is well.

It listens on 127.0.0.1 at PORT. `/` answers with its greeting and version as JSON, `/healthz`
with 200 when it could read everything it needs, with 503 and the reason when it could not.
"""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class Hello:
    """What this release holds."""

    def __init__(self, folder: Path) -> None:
        self.version = (folder / "VERSION").read_text().strip()
        try:
            self.greeting = (folder / "greeting.txt").read_text().strip()
            self.fault = ""
        except OSError as error:
            self.greeting = ""
            self.fault = f"greeting.txt: {error.strerror}"

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        """The status and body for one path."""
        status = 503 if self.fault else 200
        if path == "/healthz":
            return status, {"version": self.version, "fault": self.fault}
        if path == "/":
            said = {"application": "hello", "version": self.version, "greeting": self.greeting}
            return status, {**said, "pid": os.getpid()}
        return 404, {"error": "not found"}


class Handler(BaseHTTPRequestHandler):
    """Answers GET with JSON."""

    hello: Hello

    def do_GET(self) -> None:
        """Answer one request."""
        status, body = self.hello.answer(self.path)
        content = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    """Serve until SIGTERM."""
    Handler.hello = Hello(HERE)
    port = int(os.environ.get("PORT", "8080"))  # noqa: TID251 - how a service is told its port
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sys.stderr.write(f"hello {Handler.hello.version} listens on 127.0.0.1:{port}\n")
    server.serve_forever()


if __name__ == "__main__":
    main()
