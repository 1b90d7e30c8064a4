"""Deploys by address, and in pages that skip and repeat nothing."""

import base64
import json
from dataclasses import replace

import pytest

from manent_server.domain.access import Area, Scope
from manent_server.domain.errors import Invalid, NotFound
from manent_server.domain.marks import Sort
from manent_server.store import finding, logs
from manent_server.store.finding import Page
from manent_server.store.logs import Chunk, Origin
from manent_server.usecases import census, explain, health, inspect, mark
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import DeployFilter
from tests.integration.core.running import Running
from tests.rig.core import Core, new_id


def found(core: Core, address: str) -> str:
    with core.store.read() as tx:
        return finding.by_address(tx, address).id


def test_a_deploy_has_three_kinds_of_address(core: Core):
    core.submit("mail")
    deploy = core.submit("shop")
    for address in (deploy, deploy[:6], deploy[:11], "shop/staging#2"):
        assert found(core, address) == deploy


@pytest.mark.parametrize(
    "address",
    [
        "",
        "abc",
        "0" * 20,
        "shop/staging#9",
        "mail/staging#1",
        "shop/staging",
        "x" * 99,
        "%",
        "g" * 8,
    ],
)
def test_what_is_not_there_is_not_found(core: Core, address: str):
    core.submit()
    with pytest.raises(NotFound, match="there is no deploy"):
        found(core, address)


def test_a_beginning_of_two_ids_is_refused(core: Core):
    core.worker()
    first = core.submit()
    row = next(row for row in core.rows("deploys") if row["id"] == first)
    twin = first[:10] + new_id()[:10]
    with core.store.write() as tx:
        values = row | {"id": twin, "root": twin, "number": 99}
        tx.connection.execute(tx.tables.deploys.insert().values(**values))
    with pytest.raises(Invalid, match="several deploys begin with") as caught:
        found(core, first[:8])
    assert caught.value.code == "address_ambiguous"
    assert found(core, first) == first


def many(core: Core, count: int, *, number: int = 1000) -> set[str]:
    """Deploys of one instant, inserted at once."""
    first = core.rows("deploys")[0]
    ids = [new_id() for _ in range(count)]
    rows = [
        first | {"id": deploy, "root": deploy, "number": number + place}
        for place, deploy in enumerate(ids)
    ]
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.deploys.insert(), rows)
    return set(ids)


def test_pages_have_every_row_once_while_more_arrive(core: Core):
    """B123"""
    kept = {core.submit()} | many(core, 1000)
    seen: list[str] = []
    before, number = None, 3000
    while True:
        page = Page(None, None, None, (), None, before, 37)
        with core.store.read() as tx:
            rows, before = finding.page(tx, page)
        seen += [row.id for row in rows]
        if before is None:
            break
        if number < 3040:
            many(core, 4, number=number)
            number += 4
    assert len(seen) == len(set(seen))
    assert kept <= set(seen)


def test_a_page_has_what_was_asked_for(core: Core):
    core.worker()
    shop, mail = core.submit("shop", version="7"), core.submit("mail", "production")

    def ids(**wanted: object) -> set[str]:
        answer = inspect.deploys(core.desk, DeployFilter(**wanted))
        return {item["id"] for item in answer["items"]}

    assert ids() == {shop, mail}
    assert ids(application="shop") == ids(version="7") == ids(environment="staging") == {shop}
    assert ids(states=("success", "ERROR")) == ids(outcome="failed") == set()
    assert ids(states=("enqueued",)) == {shop, mail}
    assert inspect.deploys(core.desk, DeployFilter(limit=2))["next"] is None
    assert inspect.deploys(core.desk, DeployFilter(limit=1))["next"]
    for wrong in ({"limit": 0}, {"limit": 501}, {"states": ("gone",)}, {"outcome": "fine"}):
        with pytest.raises(Invalid):
            ids(**wrong)


def cursor(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


def test_who_sees_some_pages_through_those_alone(core: Core):
    """Some applications, one, none, and all but one, by twos, with states and without."""
    for name in ("mail", "shop", "news", "mail", "shop", "news", "mail"):
        core.submit(name)
    everything = inspect.deploys(core.desk, DeployFilter())["items"]
    for allowed, denied in (
        (("mail", "new*"), ()),
        (("shop",), ()),
        (("x*",), ()),
        (("*",), ("mail",)),
    ):
        sight = Scope((Area(allowed),), tuple(Area((name,)) for name in denied))
        desk = replace(core.desk, sight=sight)
        seen = [row["id"] for row in everything if sight.covers(row["application"], "staging")]
        for states in ((), ("ENQUEUED", "PENDING")):
            assert _paged(desk, states) == seen
        assert _paged(desk, ("ERROR",)) == []


def _paged(desk: Desk, states: tuple[str, ...]) -> list[str]:
    found, before = [], None
    while True:
        page = inspect.deploys(desk, DeployFilter(states=states, limit=2, before=before))
        found += [row["id"] for row in page["items"]]
        if (before := page["next"]) is None:
            return found


@pytest.mark.parametrize(
    "before",
    [
        "", "x", "%%%", "é", cursor(1), cursor([1, 2]), cursor(["2030-01-01", 5]),
        cursor(["then", "0" * 20]), cursor(["0001-01-01T00:00:00+23:00", "0" * 20]), cursor({}),
    ],
)  # fmt: skip
def test_a_cursor_that_is_not_ours_is_refused(core: Core, before: str):
    with pytest.raises(Invalid) as caught:
        inspect.deploys(core.desk, DeployFilter(before=before))
    assert caught.value.code == "cursor_invalid"


def test_everything_can_be_read(core: Core):
    running = Running(core)
    running.perform("deploy:web")
    waiting = core.submit("mail")
    deploy = running.deploy.id
    steps = {item["step"]: item for item in inspect.steps(core.desk, deploy)["items"]}
    assert (steps["deploy:web"]["state"], steps["deploy:web"]["attempts"]) == ("succeeded", 1)
    (attempt,) = inspect.attempts(core.desk, deploy)["items"]
    assert attempt["result"] == "succeeded"
    assert inspect.deploy(core.desk, waiting)["position"] == 1
    place = inspect.environment(core.desk, "staging")
    assert [slot["deploy"] for slot in place["slots"]] == [deploy]
    assert [item["id"] for item in place["queue"]] == [waiting]
    assert [worker["id"] for worker in place["workers"]] == ["w1"]
    names = [item["name"] for item in inspect.environments(core.desk)["items"]]
    assert names == ["manual", "production", "staging"]
    assert [item["name"] for item in inspect.applications(core.desk)["items"]] == [
        "mail", "news", "shop",
    ]  # fmt: skip
    assert inspect.log(core.desk, deploy) == {"items": [], "next": 0, "ended": False}
    running.close()
    assert inspect.log(core.desk, deploy)["ended"]
    (stock,) = inspect.inventory(core.desk, environment="staging")["items"]
    assert stock["state"] == "unknown"
    assert mark.standing(core.desk, Sort.LOCK) == {"items": []}
    assert [beat.executor for beat in census.read(core.desk, {}).beats] == ["w1"]
    assert health.ready(core.desk)["ready"]
    with pytest.raises(NotFound):
        inspect.environment(core.desk, "stagin")


def summary(core: Core, deploy: str) -> str:
    return str(explain.explain(core.desk, deploy)["summary"])


def test_explain_names_the_reason_of_every_wait(core: Core):
    nobody = core.submit("news", "production")
    assert "no worker of pool default is alive" in summary(core, nobody)
    running = Running(core)
    waiting = core.submit("mail")
    assert f"behind deploy {running.deploy.id} on w1" in summary(core, waiting)
    assert "position 1 in the queue" in summary(core, waiting)
    running.hand_out(running.errand())
    assert "deploy:web since" in summary(core, running.deploy.id)


@pytest.mark.parametrize("wanted", [{"application": "shopp"}, {"environment": "stagin"}])
def test_a_list_of_an_unknown_place_is_refused_not_empty(core: Core, wanted: dict[str, str]):
    core.submit("shop")
    with pytest.raises(NotFound, match="there is no") as refused:
        inspect.deploys(core.desk, DeployFilter(**wanted))
    assert "did you mean" in (refused.value.next or "")
    with pytest.raises(NotFound, match="there is no"):
        inspect.inventory(core.desk, **wanted)


def test_a_log_is_read_from_its_end(core: Core):
    """B103: jump to end."""
    deploy = core.submit()
    lines = "\n".join(str(number) for number in range(1, 101))
    chunk = Chunk(core.at(), Origin("deploy:web", 1, "out", None, "w1"), lines)
    with core.store.write() as tx:
        logs.append(tx, deploy, None, [chunk, chunk])

    def last(count: int, **more: int) -> list[int]:
        page = inspect.log(core.desk, deploy, tail=count, **more)
        return [line["sequence"] for line in page["items"]]

    assert last(3) == [198, 199, 200]
    assert last(150)[0] == 51
    assert last(999)[0] == 1
    assert last(3, after=199) == [200]
    assert inspect.log(core.desk, deploy, tail=0) == {"items": [], "next": 200, "ended": False}


def test_explain_names_the_hook_place_that_is_missing(core: Core):
    running = Running(core)
    waiting = running.begin(core.submit("mail", "production")).id
    places = replace(core.settings.worker, hook_processes=1)
    core.settings = replace(core.settings, worker=places)
    assert "hook place" not in summary(core, waiting)
    assert running.hand_out(running.errand()).refusal is None
    said = summary(core, waiting)
    assert said.endswith("on w1: waits for a hook place: all 1 (worker.hook_processes) are busy")
    assert "hook place" not in summary(core, running.deploy.id)
