import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from manent_plugins import release
from manent_server.sdk import HookFailure
from tests.plugins.places import Place, a_place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with a_place(tmp_path) as place:
        yield place


class Health(BaseHTTPRequestHandler):
    answers: list[tuple[int, dict[str, str], bytes]] = []  # noqa: RUF012 - set by each test

    def do_GET(self) -> None:
        status, headers, body = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def health() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Health)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/healthz?full=1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_health_is_asked_again_until_it_is_well(place: Place, health: str) -> None:
    Health.answers = [
        (503, {}, b""),
        (200, {}, b"not json"),
        (200, {}, b'{"version": "v1"}'),
        (200, {}, b'{"version": "v2"}'),
    ]
    release.verify(place.context("v2", options={"service": None, "health": health}))
    assert len(Health.answers) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((302, {"Location": "http://169.254.169.254/"}, b""), "redirects are not followed"),
        ((404, {}, b""), "it answered 404"),
        ((204, {}, b""), "it answered 204"),
        ((200, {}, b'{"version": "v1"}'), "its version is 'v1', not 'v2'"),
        ((200, {}, b"[]"), "its version is None, not 'v2'"),
        ((200, {}, b"x" * 200_000), "its version is None"),
    ],
)
def test_an_unhealthy_answer_is_told_in_words(
    place: Place, health: str, answer: tuple[int, dict[str, str], bytes], words: str
) -> None:
    Health.answers = [answer]
    given = place.context(
        "v2", options={"service": None, "health": health, "health_timeout": "100ms"}
    )
    with pytest.raises(HookFailure) as raised:
        release.verify(given)
    assert words in raised.value.message


def test_nobody_answering_is_unhealthy(place: Place) -> None:
    given = place.context("v2", options={"service": None, "health_timeout": "100ms"})
    with pytest.raises(HookFailure, match="no answer \\(Connection refused\\)"):
        release.verify(given)


def test_a_cancel_ends_the_wait_for_health(place: Place) -> None:
    given = place.context("v2", options={"service": None, "health_interval": "60s"})
    place.heard.is_asked_to_stop = True
    with pytest.raises(HookFailure, match="stopped while waiting"):
        release.verify(given)
