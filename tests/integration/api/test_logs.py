"""The log of a deploy over HTTP: by pages, and live."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from manent_server.api.logs import PAGE_BYTES, fitted
from manent_server.domain.errors import Unavailable
from tests.integration.api.conftest import ADMIN, Connect, FakeUsecases, line

URL = "/api/v1/deploys/0123456789/logs"
LIVE = {**ADMIN, "Accept": "text/event-stream"}


@dataclass
class Event:
    name: str
    data: Any
    id: str | None


def events(text: str) -> list[Event]:
    found = []
    for block in text.strip().split("\n\n"):
        fields = dict(part.split(": ", 1) for part in block.splitlines() if part[0] != ":")
        if "event" in fields:
            found.append(Event(fields["event"], json.loads(fields["data"]), fields.get("id")))
    return found


@pytest.fixture
def quick(app: FastAPI, connect: Connect) -> TestClient:
    app.state.watching.fastest = app.state.watching.slowest = 0.01
    return connect(LIVE)


@pytest.fixture
def later() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Do something while the test's own thread follows a log."""
    threads: list[threading.Thread] = []

    def start(work: Callable[[], None]) -> None:
        threads.append(threading.Thread(target=lambda: (time.sleep(0.1), work())))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()


def test_a_page_holds_the_lines_after(client: TestClient, fake: FakeUsecases) -> None:
    """B103: a log is read by ranges."""
    fake.lines = [line(number) for number in range(1, 11)]

    page = client.get(f"{URL}?after=3&limit=4").json()

    assert [item["sequence"] for item in page["items"]] == [4, 5, 6, 7]
    assert page["next"] == 7
    assert fake.last()[2] == {"after": 3, "limit": 4, "tail": None}


def test_an_empty_page_keeps_its_place(client: TestClient, fake: FakeUsecases) -> None:
    fake.has_ended = False

    assert client.get(f"{URL}?after=3").json() == {"items": [], "next": 3, "ended": False}


def test_no_answer_is_larger_than_a_megabyte(client: TestClient, fake: FakeUsecases) -> None:
    """B103: at most 1 MB a request, and reading on loses nothing."""
    fake.lines = [line(number, "x" * 16_000) for number in range(1, 301)]
    seen: list[int] = []
    after = 0

    while True:
        answer = client.get(f"{URL}?after={after}")
        assert len(answer.content) <= PAGE_BYTES
        page = answer.json()
        seen += [item["sequence"] for item in page["items"]]
        after = page["next"]
        if page["ended"]:
            break

    assert seen == list(range(1, 301))


def test_a_single_line_is_always_sent() -> None:
    page = {"items": [line(1, "x" * 2 * PAGE_BYTES), line(2)], "ended": True}

    assert fitted(page, 0)["next"] == 1
    assert fitted(page, 0)["ended"] is False


@pytest.mark.parametrize(
    "query", ["after=-1", "after=x", "after=9223372036854775808", "limit=0", "limit=5001", "from=1"]
)
def test_a_range_that_is_none_is_refused(client: TestClient, query: str) -> None:
    assert client.get(f"{URL}?{query}").status_code == 422


def test_a_log_is_followed_to_its_end(
    quick: TestClient, fake: FakeUsecases, later: Callable[[Callable[[], None]], None]
) -> None:
    fake.lines = [line(1), line(2)]
    fake.has_ended = False

    def end() -> None:
        fake.lines = [*fake.lines, line(3)]
        fake.has_ended = True

    later(end)
    answer = quick.get(URL)

    assert answer.headers["content-type"].startswith("text/event-stream")
    found = events(answer.text)
    assert [event.id for event in found] == ["1", "2", "3", None]
    assert [event.name for event in found] == ["line", "line", "line", "end"]
    assert found[-1].data["state"] == "SUCCESS"
    assert found[-1].data["pass"] is None


def test_a_stream_resumes_after_the_last_event(quick: TestClient, fake: FakeUsecases) -> None:
    fake.lines = [line(number) for number in range(1, 2001)]

    found = events(quick.get(f"{URL}?after=5", headers={"Last-Event-ID": "1998"}).text)

    assert [event.id for event in found] == ["1999", "2000", None]


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 19, "9" * 5000])
def test_a_last_event_that_is_none_is_refused(quick: TestClient, last: str) -> None:
    assert quick.get(URL, headers={"Last-Event-ID": last}).status_code == 422


def test_a_stream_of_an_unknown_deploy_is_a_problem(quick: TestClient) -> None:
    answer = quick.get("/api/v1/deploys/missing/logs")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_stream_ends_when_its_token_does(
    app: FastAPI,
    quick: TestClient,
    fake: FakeUsecases,
    later: Callable[[Callable[[], None]], None],
) -> None:
    """A revoked token reads no further line."""
    app.state.watching.sign_in_again = 0.0
    fake.has_ended = False
    later(fake.tokens.clear)

    found = events(quick.get(URL).text)

    assert [event.name for event in found] == ["problem"]
    assert found[0].data["status"] == 401


def test_a_stream_waits_while_the_database_is_away(
    quick: TestClient, fake: FakeUsecases, later: Callable[[Callable[[], None]], None]
) -> None:
    fake.has_ended = False
    fake.lines = [line(1)]

    def go_away_and_come_back() -> None:
        fake.fail_with = Unavailable("the database does not answer")
        time.sleep(0.1)
        fake.lines = [line(1), line(2)]
        fake.has_ended = True
        fake.fail_with = None

    later(go_away_and_come_back)
    found = events(quick.get(URL).text)

    assert [event.name for event in found] == ["line", "line", "end"]


def test_a_quiet_stream_says_that_it_is_there(
    app: FastAPI,
    quick: TestClient,
    fake: FakeUsecases,
    later: Callable[[Callable[[], None]], None],
) -> None:
    app.state.watching.keep_alive = 0.02
    fake.has_ended = False
    later(lambda: setattr(fake, "has_ended", True))

    assert ": still here\n\n" in quick.get(URL).text


def test_streams_end_when_the_process_stops(
    app: FastAPI,
    quick: TestClient,
    fake: FakeUsecases,
    later: Callable[[Callable[[], None]], None],
) -> None:
    fake.has_ended = False
    later(app.state.closing.set)

    assert events(quick.get(URL).text) == []
    assert app.state.watching.count == 0


def test_more_watchers_than_a_process_carries_are_told_to_come_back(
    app: FastAPI, quick: TestClient
) -> None:
    app.state.watching.most = 0

    answer = quick.get(URL)

    assert answer.status_code == 503
    assert answer.json()["code"] == "too_many_watchers"
    assert "this process serves 0 streams at once" in answer.json()["detail"]


def test_a_page_may_begin_before_the_end(client: TestClient, fake: FakeUsecases) -> None:
    """B103: jump to end."""
    fake.lines = [line(number) for number in range(1, 11)]

    page = client.get(f"{URL}?tail=2").json()

    assert [item["sequence"] for item in page["items"]] == [9, 10]
    stream = client.get(f"{URL}?tail=1", headers={"Accept": "text/event-stream"}).text
    assert [text for text in stream.splitlines() if text.startswith("id:")] == ["id: 10"]
