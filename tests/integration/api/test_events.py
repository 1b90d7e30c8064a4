"""Events over HTTP: by pages, and live."""

from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.integration.api.conftest import ADMIN, VIEWER, Connect, FakeUsecases
from tests.integration.api.test_logs import LIVE, events

URL = "/api/v1/events"


def event(position: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"e{position}",
        "position": position,
        "at": "2027-01-01T00:00:00Z",
        "type": "lock.set",
        "actor": "ann",
        "detail": {"lock": "l1"},
        **more,
    }


@pytest.fixture
def live(app: FastAPI, connect: Connect) -> TestClient:
    app.state.watching.fastest = app.state.watching.slowest = app.state.head.pause = 0.01
    return connect(LIVE)


def test_a_page_holds_the_events_after(client: TestClient, fake: FakeUsecases) -> None:
    fake.events = [event(number) for number in range(1, 6)]

    page = client.get(f"{URL}?after=2&limit=2&application=shop").json()

    assert [item["position"] for item in page["items"]] == [3, 4]
    assert page["next"] == 4
    assert fake.last()[2]["application"] == "shop"


def test_a_page_begins_with_the_oldest(connect: Connect, fake: FakeUsecases) -> None:
    fake.events = [event(4), event(5)]

    assert len(connect(VIEWER).get(URL).json()["items"]) == 2


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=501", "type=a"])
def test_a_range_that_is_none_is_refused(client: TestClient, query: str) -> None:
    assert client.get(f"{URL}?{query}").status_code == 422


def follow(client: TestClient, app: FastAPI, fake: FakeUsecases, **headers: str) -> list[int]:
    """Follow until the fake has been read to its end, then let the process stop."""
    fake.at_end = app.state.closing.set
    answer = client.get(URL, headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = events(answer.text)
    assert [item.id for item in found] == [str(item.data["position"]) for item in found]
    assert {item.name for item in found} <= {"event"}
    return [item.data["position"] for item in found]


def test_a_stream_begins_now(live: TestClient, app: FastAPI, fake: FakeUsecases) -> None:
    fake.events = [event(1), event(2)]
    fake.later = [event(3)]

    assert follow(live, app, fake) == [3]


def test_a_stream_resumes(live: TestClient, app: FastAPI, fake: FakeUsecases) -> None:
    fake.events = [event(number) for number in range(1, 451)]

    assert follow(live, app, fake, **{"Last-Event-ID": "3"}) == list(range(4, 451))


def test_a_stream_can_begin_anywhere(connect: Connect, app: FastAPI, fake: FakeUsecases) -> None:
    app.state.watching.fastest = app.state.head.pause = 0.01
    fake.events = [event(1), event(2)]
    fake.at_end = app.state.closing.set

    answer = connect(LIVE).get(f"{URL}?after=0")

    assert [item.data["position"] for item in events(answer.text)] == [1, 2]


def test_a_last_event_id_that_is_none_is_refused(live: TestClient) -> None:
    answer = live.get(URL, headers={"Last-Event-ID": "x"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "Last-Event-ID"


def test_many_watchers_ask_once_for_what_is_new(
    live: TestClient, app: FastAPI, fake: FakeUsecases
) -> None:
    """A watcher that has read all asks for no page: it learns of the newest position."""
    fake.events = [event(1)]
    fake.later = [event(2)]
    fake.later_after = 20

    assert follow(live, app, fake) == [2]
    pages = [name for name, *_ in fake.asked if name == "events"]
    assert len(pages) <= 3


def test_a_stream_needs_a_token(app: FastAPI, connect: Connect) -> None:
    assert connect({"Accept": ADMIN["Authorization"]}).get(URL).status_code == 401
