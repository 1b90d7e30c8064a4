"""Rollback, hold and veto are one act; what was left is never gone back to."""

from dataclasses import replace
from typing import Any

import pytest

from manent_server.domain.access import Caller, everywhere
from manent_server.domain.errors import Conflict, NotAllowed, Refused
from manent_server.domain.marks import Sort
from manent_server.usecases import mark, roll_back
from manent_server.usecases.requests import MarkRequest, RollbackRequest
from tests.integration.core.running import good
from tests.rig.core import ADMIN, Core

REQUEST = RollbackRequest("shop", "staging", reason="it loses orders", veto=True)


def back(core: Core, request: RollbackRequest = REQUEST) -> dict[str, Any]:
    return roll_back.roll_back(core.desk, request, caller=ADMIN)


def test_a_rollback_sets_hold_and_veto_with_itself(core: Core):
    for version in ("1", "2"):
        good(core, version)
    made = back(core)
    assert (made["version"], made["state"]) == ("1", "ENQUEUED")
    (veto,) = mark.standing(core.desk, Sort.VETO)["items"]
    assert (veto["application"], veto["environment"], veto["version"]) == ("shop", "staging", "2")
    assert (veto["owner"], veto["reason"]) == ("ann", REQUEST.reason)
    assert len(mark.standing(core.desk, Sort.HOLD)["items"]) == 1
    with pytest.raises(Refused) as caught:
        core.submit(version="2")
    assert caught.value.code == "veto"


def test_without_anything_to_go_back_to_nothing_is_vetoed(core: Core):
    good(core, "1")
    with pytest.raises(Conflict):
        back(core)
    assert core.rows("marks") == []


def test_a_vetoed_version_is_passed_over_on_the_way_back(core: Core):
    for version in ("1", "2", "3"):
        good(core, version)
    request = MarkRequest(Sort.VETO, "bad", "shop", version="2")
    mark.put(core.desk, request, caller=ADMIN)
    assert back(core, replace(REQUEST, veto=False))["version"] == "1"


def test_a_version_that_was_rolled_back_from_is_never_named_as_the_target(core: Core):
    for version in ("1", "2"):
        good(core, version)
    back(core, replace(REQUEST, veto=False))
    with pytest.raises(Conflict, match="2 was rolled back from in staging") as caught:
        back(core, replace(REQUEST, to="2", veto=False))
    assert caught.value.code == "rolled_back_from"


def test_a_veto_needs_its_own_right(core: Core, monkeypatch: pytest.MonkeyPatch):
    from manent_server.domain import access  # noqa: PLC0415 - a role of this test alone

    few = frozenset({access.READ, access.ROLLBACK})
    monkeypatch.setitem(access.ROLES, "few", few)  # type: ignore[arg-type]
    with pytest.raises(NotAllowed, match="lock"):
        roll_back.roll_back(core.desk, REQUEST, caller=Caller("dev", everywhere("few")))
