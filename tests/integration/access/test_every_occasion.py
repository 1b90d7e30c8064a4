"""Deeds that need an occasion: each leaves a record of who did it, by which way, at the door."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from manent_server.api.route import PREFIX
from manent_server.domain.access import everywhere
from manent_server.store import sessions
from manent_server.usecases import sinks, tokens
from manent_server.usecases.deliver import Receipt
from manent_server.usecases.requests import TokenRequest
from tests.integration.access.conftest import Door
from tests.integration.access.test_every_deed import REFUSED_HERE
from tests.integration.core.crew import Hand, good_before, place
from tests.integration.core.test_abandon import stuck
from tests.integration.core.test_notices import HOOK, Receiver, come, round_of, tell
from tests.rig import core as cores
from tests.rig.core import ADMIN, Core, long_ago
from tests.rig.fake_runner import AGAIN, BAD

WHY = {"reason": "audit"}
Asked = tuple[str, Any]


@dataclass
class Scene:
    """A core in which something happens, and a worker of it."""

    core: Core
    hand: Hand

    def promote(self) -> Asked:
        good_before(self.core, self.hand, "1")
        return "/promotions", {"application": "shop", "from": "staging", "to": "production"}

    def roll_back(self) -> Asked:
        for version in ("1", "2"):
            good_before(self.core, self.hand, version)
        return "/rollbacks", {"application": "shop", "environment": "staging", **WHY}

    def skip_wait(self) -> Asked:
        deploy = self.core.submit(not_before=self.core.at() + timedelta(hours=1))
        return f"/deploys/{deploy}/skip-wait", WHY

    def abandon(self) -> Asked:
        return f"/deploys/{stuck(self.core).deploy.id}/abandon", WHY

    def resolve(self) -> Asked:
        place(self.core, (("a",), ("b",)))
        self.core.change_environment("staging", on_exhausted="pause")
        self.hand.runner.ends["deploy:b"] = [AGAIN] * 3
        deploy = self.core.submit()
        self.hand.run(deploy)
        return f"/deploys/{deploy}/resolve", {"answer": "failed"}

    def rerun(self) -> Asked:
        deploy = self.core.submit()
        self.hand.run(deploy)
        return f"/deploys/{deploy}/rerun", {"from": "prepare"}

    def retry(self) -> Asked:
        self.hand.runner.ends["deploy:web"] = [BAD]
        deploy = self.core.submit()
        self.hand.run(deploy)
        return f"/deploys/{deploy}/retry", {}

    def resend(self) -> Asked:
        return f"/notices/{self._dead()}/resend", {}

    def resend_all(self) -> Asked:
        self._dead()
        return "/sinks/board/resend", {}

    def _dead(self) -> str:
        self.core.configure(notify={"board": HOOK})
        tell(self.core)
        come(self.core, expires_at=long_ago(), next_try_at=self.core.at())
        round_of(self.core, Receiver([Receipt(500)]))
        found = sinks.listed(self.core.desk, state="dead", sink=None, before=None, limit=5)
        return str(found["items"][0]["id"])

    def recover(self) -> Asked:
        self.core.set_worker("w1", heartbeat_at=long_ago())
        return "/admin/recover", {"executor": "w1"}

    def forget(self) -> Asked:
        self.core.set_worker("w1", heartbeat_at=long_ago(), stopped_at=long_ago())
        return "/admin/executors/w1", None

    def end_session(self) -> Asked:
        with self.core.store.write() as tx:
            values = {"id": "s1", "hash": "h", "proof": "p", "source": "oidc:idp", "groups": []}
            ends = {"created_at": tx.now(), "expires_at": tx.now() + timedelta(hours=1)}
            sessions.insert(tx, values | ends | {"principal": "oidc:https://idp#1"})
        return "/sessions/s1", None

    def revoke(self) -> Asked:
        made = tokens.create(self.core.desk, TokenRequest("ci", "viewer"), caller=ADMIN)
        return f"/tokens/{made['id']}", None


DEEDS: dict[tuple[str, str], Callable[[Scene], Asked]] = {
    ("POST", "/promotions"): Scene.promote,
    ("POST", "/rollbacks"): Scene.roll_back,
    ("POST", "/deploys/{address:address}/skip-wait"): Scene.skip_wait,
    ("POST", "/deploys/{address:address}/abandon"): Scene.abandon,
    ("POST", "/deploys/{address:address}/resolve"): Scene.resolve,
    ("POST", "/deploys/{address:address}/rerun"): Scene.rerun,
    ("POST", "/deploys/{address:address}/retry"): Scene.retry,
    ("POST", "/notices/{notice}/resend"): Scene.resend,
    ("POST", "/sinks/{name}/resend"): Scene.resend_all,
    ("POST", "/admin/recover"): Scene.recover,
    ("DELETE", "/admin/executors/{executor}"): Scene.forget,
    ("DELETE", "/sessions/{session_id}"): Scene.end_session,
    ("DELETE", "/tokens/{token_id}"): Scene.revoke,
}


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cores.Ground]:
    made = cores.lay(f"sqlite:///{tmp_path_factory.mktemp('occasions') / 'manent.db'}")
    yield made
    made.close()


def test_every_deed_has_its_occasion() -> None:
    assert DEEDS.keys() == REFUSED_HERE


@pytest.mark.parametrize("name", DEEDS, ids=" ".join)
def test_what_is_done_is_on_record(
    ground: cores.Ground, tmp_path: Path, name: tuple[str, str]
) -> None:
    """I12: one record at least of whoever asked, with the way they came by."""
    core = cores.build(ground, cores.read_settings(tmp_path))
    path, body = DEEDS[name](Scene(core, Hand(core, tmp_path, core.worker())))
    before = {row["id"] for row in core.rows("audit")}
    door = Door(core)
    with start_blocking_portal() as portal:
        door.client.portal = portal
        status, text = door.ask(everywhere("admin"), name[0], f"{PREFIX}{path}", body)
    assert 200 <= status < 300, text
    mine = [r for r in core.rows("audit") if r["actor"] == "dev" and r["id"] not in before]
    assert mine, name
    assert json.loads(mine[0]["record"])["channel"] == "api"
