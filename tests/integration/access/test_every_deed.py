"""Every route that changes something leaves a record, of whoever asked and in the same transaction.

The routes are those of the access matrix: one that is added there is walked here.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from manent_server.api.route import PREFIX
from manent_server.domain import access
from manent_server.domain.access import everywhere
from manent_server.domain.approval import Rule
from manent_server.domain.rules import Rules
from tests.integration.access.conftest import Door
from tests.integration.access.routes import ROUTES, furnish
from tests.integration.core.restoring import gone_back, guard, unfence
from tests.rig.core import Core

RIGHTS: Final = frozenset().union(*access.ROLES.values()) - {access.READ}
CHANGES: Final = frozenset({"POST", "DELETE"})
READS: Final = frozenset({("POST", "/plans"), ("POST", "/schedules/preview")})
"""Asked by POST, and change nothing."""
REFUSED_HERE: Final = frozenset(
    {
        ("POST", "/promotions"),
        ("POST", "/rollbacks"),
        ("POST", "/deploys/{address:address}/skip-wait"),
        ("POST", "/deploys/{address:address}/abandon"),
        ("POST", "/deploys/{address:address}/resolve"),
        ("POST", "/deploys/{address:address}/rerun"),
        ("POST", "/deploys/{address:address}/retry"),
        ("POST", "/notices/{notice}/resend"),
        ("POST", "/sinks/{name}/resend"),
        ("POST", "/admin/recover"),
        ("DELETE", "/admin/executors/{executor}"),
        ("DELETE", "/sessions/{session_id}"),
        ("DELETE", "/tokens/{token_id}"),
    }
)
"""Routes to which nothing that is furnished here is an occasion: test_every_occasion walks them;
here they must change nothing without a word."""


def walked() -> Iterator[tuple[str, str]]:
    for (method, path), asks in ROUTES.items():
        is_right = asks.right in RIGHTS
        if method in CHANGES and is_right and (method, path) not in READS:
            yield method, path


def records(core: Core) -> list[dict[str, Any]]:
    return [dict(row) for row in core.rows("audit")]


@pytest.mark.parametrize("name", list(walked()), ids=" ".join)
def test_a_deed_is_on_record_and_a_refusal_changes_nothing(
    core: Core, door: Door, name: tuple[str, str]
) -> None:
    place = furnish(core, "shop", "staging")
    asks = ROUTES[name]
    body = asks.body(place)
    if name == ("POST", "/admin/prune"):
        body = {"max_age": "1h"}
    if name == ("POST", "/schedules/{name}/resume"):
        paused = door.ask(everywhere("admin"), "POST", f"{PREFIX}/schedules/{place.schedule}/pause")
        assert paused[0] == 200
    if name == ("POST", "/deploys/{address:address}/regate"):
        other = Rule("other", quorum=2)
        core.change_environment("staging", rules=Rules(approvals=(other,)))
    if name[1].startswith("/admin/restore"):
        assert not guard(core, gone_back(core)).look()
    before = {row["id"] for row in records(core)}
    tables = state(core)
    status, text = door.ask(everywhere("admin"), name[0], f"{PREFIX}{asks.path(place)}", body)
    if name[1].startswith("/admin/restore"):
        unfence(core)
    new = [row for row in records(core) if row["id"] not in before]
    if name in REFUSED_HERE:
        assert 400 <= status < 500, text
        assert state(core) == tables
        return
    assert 200 <= status < 300, text
    mine = [row for row in new if row["actor"] == "dev"]
    assert mine, (name, [row["action"] for row in new])
    told = json.loads(mine[0]["record"])
    assert told["channel"] == "api"
    assert told["action"] == mine[0]["action"]


def state(core: Core) -> dict[str, int]:
    """How many rows there are of what is changed on purpose."""
    names = ("deploys", "marks", "schedules", "tokens", "votes", "executors", "notices", "slots")
    return {name: len(core.rows(name)) for name in names}
