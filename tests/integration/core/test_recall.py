"""The record is read by who did it, what it was about and when."""

from dataclasses import replace
from typing import Any

import pytest

from manent_server.domain import audit
from manent_server.domain.access import Caller, Grant, everywhere
from manent_server.domain.audit import Wanted
from manent_server.domain.errors import Invalid, NotAllowed, NotFound
from manent_server.domain.marks import Sort
from manent_server.usecases import chain, mark, recall
from manent_server.usecases.requests import MarkRequest
from tests.rig.core import ADMIN, Core

BOB = replace(ADMIN, name="bob", channel="cli", address="192.0.2.7")


def read(core: Core, caller: Caller = ADMIN, **more: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = recall.recall(core.desk, Wanted(**more), caller=caller)["items"]
    return [item for item in items if item["actor"] != "test"]


def act(core: Core) -> str:
    deploy = core.submit()
    mark.put(core.desk, MarkRequest(Sort.LOCK, "why", "mail", "production"), caller=BOB)
    return deploy


def test_each_record_says_who_when_which_way_and_what_changed(core: Core):
    act(core)
    chain.chain(core.desk)
    locked, asked = read(core)

    assert (locked["actor"], locked["channel"], locked["address"]) == ("bob", "cli", "192.0.2.7")
    assert locked["after"]["owner"] == "bob"
    assert locked["before"] is None
    assert (asked["action"], asked["after"]) == ("deploy.requested", {"state": "ENQUEUED"})
    assert (locked["number"], asked["number"]) == (3, 2)
    assert len(locked["hash"]) == 64


def test_a_record_without_a_number_is_listed_too(core: Core):
    act(core)
    assert [one["number"] for one in read(core)] == [None, None]


def test_it_is_read_in_parts(core: Core):
    deploy = act(core)
    at = core.at()
    parts: list[tuple[dict[str, Any], list[str]]] = [
        ({"deploy": deploy}, ["deploy.requested"]),
        ({"deploy": "shop/staging#1"}, ["deploy.requested"]),
        ({"actor": "bob"}, ["lock.set"]),
        ({"action": "lock.set"}, ["lock.set"]),
        ({"action": "deploy.*"}, ["deploy.requested"]),
        ({"action": "l%*"}, []),
        ({"application": "mail"}, ["lock.set"]),
        ({"environment": "production"}, ["lock.set"]),
        ({"since": at}, []),
        ({"until": at, "actor": "ann"}, ["deploy.requested"]),
    ]
    for wanted, actions in parts:
        assert [one["action"] for one in read(core, **wanted)] == actions, wanted


def test_of_a_deploy_that_was_pruned_it_is_still_read(core: Core):
    """By its id or a beginning of it, by whoever might have seen the deploy and no one else."""
    deploy = act(core)
    with core.store.write() as tx:
        for table in (tx.tables.wakes, tx.tables.slots, tx.tables.deploys):
            tx.connection.execute(table.delete())
    place = (("shop",), ("staging",))
    mine, other = (Caller("vic", (Grant("operator", *one),)) for one in (place, (("mail",), "*")))
    for caller in (ADMIN, mine):
        for address in (deploy, deploy[:6]):
            [found] = read(core, caller, deploy=address)
            assert (found["action"], found["deploy"]) == ("deploy.requested", deploy)
    for caller, address in ((other, deploy), (ADMIN, "0" * 20), (ADMIN, "shop/staging#1")):
        with pytest.raises(NotFound):
            read(core, caller, deploy=address)
    with pytest.raises(NotAllowed):
        read(core, Caller("vic", everywhere("viewer")), deploy=deploy)


def test_pages_follow_one_another(core: Core):
    act(core)
    first = recall.recall(core.desk, Wanted(limit=1), caller=ADMIN)
    second = recall.recall(core.desk, Wanted(limit=1, before=first["next"]), caller=ADMIN)
    assert [one["items"][0]["action"] for one in (first, second)] == [
        "lock.set",
        "deploy.requested",
    ]
    with pytest.raises(Invalid):
        recall.recall(core.desk, Wanted(before="nobody"), caller=ADMIN)


def test_whoever_may_read_it_in_one_place_reads_only_that(core: Core):
    deploy = act(core)
    some = Caller("ops", (Grant("operator", ("shop",)),))

    assert [one["action"] for one in read(core, some, application="shop")] == ["deploy.requested"]
    assert len(read(core, some, deploy=deploy)) == 1
    for wanted in ({}, {"environment": "production"}):
        with pytest.raises(NotAllowed):
            read(core, some, **wanted)
    with pytest.raises(NotFound):
        read(core, some, application="mail")
    with pytest.raises(NotAllowed):
        read(core, Caller("vic", everywhere("viewer")), deploy=deploy)
    with pytest.raises(NotFound):
        read(core, application="nope")


def test_what_is_listed_is_what_was_hashed(core: Core):
    act(core)
    chain.chain(core.desk)
    last = audit.GENESIS
    texts = {row["id"]: row["record"] for row in core.rows("audit")}
    for one in sorted(
        recall.recall(core.desk, Wanted(), caller=ADMIN)["items"], key=lambda o: o["number"]
    ):
        if one["id"] in texts:
            assert audit.link(last, one["number"], texts[one["id"]]) == one["hash"]
        last = one["hash"]
