"""`GET /audit`."""

from datetime import UTC, datetime

from manent_server.domain.audit import Wanted
from tests.integration.api.conftest import VIEWER


def test_the_record_is_asked_for_in_parts(client, fake):
    answer = client.get(
        "/api/v1/audit?deploy=shop/production%2312&action=deploy.*&since=2027-01-01T00:00:00Z&limit=5"
    )
    assert answer.status_code == 200
    [record] = answer.json()["items"]
    assert (record["number"], record["actor"], record["after"]) == (7, "ann", {"id": "l1"})
    name, (wanted,), more = fake.last()
    assert (name, more["caller"].name) == ("audit", "ann")
    since = datetime(2027, 1, 1, tzinfo=UTC)
    assert wanted == Wanted(deploy="shop/production#12", action="deploy.*", since=since, limit=5)


def test_a_viewer_reads_no_record(connect):
    assert connect(VIEWER).get("/api/v1/audit").status_code == 403


def test_an_unknown_filter_is_refused(client):
    assert client.get("/api/v1/audit?actors=ann").status_code == 422
    assert client.get("/api/v1/audit?since=yesterday").status_code == 422
