"""A small OpenID Connect provider that really signs: discovery, keys, device flow, CI tokens."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.rig import signer

JOB_SECRET = "of-the-job"  # noqa: S105 - of nothing


class Provider(ThreadingHTTPServer):
    """Listens on 127.0.0.1.

    Attributes:
        said: What its next token of a person says beside the usual; also that of a job.
        job: What the next token of a job says beside the usual.
        polls: How often the device flow answers that nobody has confirmed yet.
        refuses: The error it answers instead of a token.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.issuer = f"http://127.0.0.1:{self.server_port}"
        self.said: dict[str, Any] = {}
        self.job: dict[str, Any] = {}
        self.polls = 1
        self.refuses: str | None = None
        self.asked: list[str] = []

    def token(self, **more: Any) -> str:
        """A token it has signed just now."""
        return signer.sign(signer.claims(**{"iss": self.issuer, **self.said, **more}), kty="EC")

    def answer(self, path: str, form: Mapping[str, str], secret: str) -> tuple[int, Any]:
        """Status and JSON body."""
        self.asked.append(path)
        if path == "/token":
            return self._confirmed(form)
        if path == "/job" and secret == f"Bearer {JOB_SECRET}":
            return 200, {"value": self.token(**{**self.job, "aud": form["audience"]})}
        found = self._documents().get(path)
        return (404, {"error": "not_found"}) if found is None else (200, found)

    def _documents(self) -> Mapping[str, Any]:
        return {
            "/.well-known/openid-configuration": {
                "issuer": self.issuer,
                "jwks_uri": f"{self.issuer}/keys",
                "device_authorization_endpoint": f"{self.issuer}/device",
                "token_endpoint": f"{self.issuer}/token",
            },
            "/keys": {"keys": [signer.public("EC", "e")]},
            "/device": {
                "device_code": "code",
                "user_code": "ABCD-EFGH",
                "verification_uri": f"{self.issuer}/confirm",
                "interval": 1,
                "expires_in": 60,
            },
        }

    def _confirmed(self, form: Mapping[str, str]) -> tuple[int, Any]:
        if form.get("device_code") != "code":
            return 400, {"error": "invalid_grant"}
        if self.refuses is not None:
            return 400, {"error": self.refuses}
        if self.polls > 0:
            self.polls -= 1
            return 400, {"error": "authorization_pending"}
        return 200, {"id_token": self.token(aud=form["client_id"]), "access_token": "x"}


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer("")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())

    def _answer(self, body: str) -> None:
        asked = urlsplit(self.path)
        form = {name: values[0] for name, values in parse_qs(body or asked.query).items()}
        secret = self.headers.get("Authorization", "")
        status, found = self.server.answer(asked.path, form, secret)
        content = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def running() -> Iterator[Provider]:
    """A provider while it is needed."""
    made = Provider()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()
        thread.join()
