"""Documents of issuers, over HTTP: read where they stand, small, and nowhere else."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from manent_server.sources import issuers
from manent_server.sources.issuers import Unfetched

ANSWERS = {
    "/good": (200, b'{"issuer": "x"}'),
    "/gone": (404, b'{"issuer": "x"}'),
    "/list": (200, b"[]"),
    "/text": (200, b"<html>"),
    "/deep": (200, b"[" * 100_000),
    "/large": (200, b'{"x": "' + b"x" * 600_000 + b'"}'),
    "/moved": (302, b""),
}


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = ANSWERS[self.path]
        self.send_response(status)
        self.send_header("Location", "/good")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_document_is_read_where_it_stands(site: str) -> None:
    assert issuers.read(f"{site}/good") == {"issuer": "x"}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/moved", "302"),
        ("/gone", "404"),
        ("/list", "no JSON object"),
        ("/text", "no JSON"),
        ("/deep", "no JSON"),
        ("/large", "too large"),
    ],
)
def test_whatever_else_is_there_is_not_followed(site: str, path: str, why: str) -> None:
    """An answer that leads elsewhere would let whoever serves it choose the keys."""
    with pytest.raises(Unfetched, match=why):
        issuers.read(f"{site}{path}")


def test_nobody_there_is_said(site: str) -> None:
    with pytest.raises(Unfetched):
        issuers.read("http://127.0.0.1:9/x")
