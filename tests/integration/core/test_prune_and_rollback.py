"""Retention leaves a rollback its way back, and a rerun what it begins with."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.domain.errors import NotFound
from manent_server.domain.marks import Sort
from manent_server.usecases import mark, rerun, roll_back
from manent_server.usecases.requests import (
    MarkRequest,
    PruneRequest,
    RerunRequest,
    RollbackRequest,
)
from tests.integration.core.pruning import DAY, old_good, pruned
from tests.rig.core import ADMIN, Core
from tests.rig.process import until

AGAIN = RerunRequest("prepare", override=("outdated",))


def test_a_rollback_works_after_a_prune_as_before(core: Core) -> None:
    for n in range(5):
        old_good(core, f"v{n}", 200 - n)
    pruned(core, PruneRequest(max_age=90 * DAY, keep_releases=1))
    request = RollbackRequest("shop", "staging", reason="it loses orders")
    assert roll_back.roll_back(core.desk, request, caller=ADMIN)["version"] == "v3"


def rolled_back(core: Core) -> str:
    request = RollbackRequest("shop", "staging", reason="it loses orders")
    return str(roll_back.roll_back(core.desk, request, caller=ADMIN)["version"])


def test_redeploys_of_what_is_live_do_not_cut_the_way_back(core: Core) -> None:
    """B93: more of them than are kept, all older than the limit; pruned twice."""
    old_good(core, "v0", 210)
    old_good(core, "v1", 200)
    for n in range(4):
        old_good(core, "v2", 190 - n)
    request = PruneRequest(max_age=90 * DAY, keep_releases=1)
    assert pruned(core, request)["deploys"] == 1
    assert pruned(core, request)["deploys"] == 0
    assert rolled_back(core) == "v1"


def test_a_vetoed_version_does_not_cut_the_way_back(core: Core) -> None:
    for n in range(4):
        old_good(core, f"v{n}", 200 - n)
    veto = MarkRequest(Sort.VETO, "bad", "shop", environment="staging", version="v2")
    mark.put(core.desk, veto, caller=ADMIN)
    request = PruneRequest(max_age=90 * DAY, keep_releases=1)
    assert pruned(core, request)["deploys"] == 1
    assert rolled_back(core) == "v1"


def test_the_way_back_stays_while_a_place_is_to_be_repaired(core: Core) -> None:
    """A later deploy failed half-way: what is live comes first, and then what was before it."""
    for n in range(3):
        old_good(core, f"v{n}", 200 - n)
    with core.store.write() as tx:
        tx.connection.execute(sa.update(tx.tables.inventory).values(state="unknown"))
    request = PruneRequest(max_age=90 * DAY, keep_releases=1)
    assert pruned(core, request)["deploys"] == 1
    assert rolled_back(core) == "v2"
    with core.store.write() as tx:
        tx.connection.execute(sa.update(tx.tables.inventory).values(state="known"))
    assert rolled_back(core) == "v1"


@pytest.mark.postgres
def test_what_is_rerun_is_not_pruned_under_it(
    postgres_core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I15: the two meet in one moment, and the rerun has its row first."""
    core = postgres_core
    first, *_ = [old_good(core, f"v{n}", 200 - n) for n in range(3)]
    with pruning_after(monkeypatch, core, rerun, "_cut"):
        again = rerun.rerun(core.desk, first, AGAIN, caller=ADMIN)
    assert core.deploy(again["id"]).rerun_of == first
    assert core.deploy(first).version == "v0"


@pytest.mark.postgres
def test_what_is_gone_back_to_is_not_pruned_under_it(
    postgres_core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = postgres_core
    first, *_ = [old_good(core, f"v{n}", 200 - n) for n in range(3)]
    request = RollbackRequest("shop", "staging", reason="it loses orders", to="v0")
    with pruning_after(monkeypatch, core, roll_back, "_held"):
        made = roll_back.roll_back(core.desk, request, caller=ADMIN)
    assert core.deploy(made["id"]).rollback_to == first
    assert core.deploy(first).version == "v0"


@contextmanager
def pruning_after(patch: pytest.MonkeyPatch, core: Core, where: Any, name: str) -> Iterator[None]:
    """A prune that begins, and comes as far as it can, once this has been done."""
    request = PruneRequest(max_age=90 * DAY, keep_releases=1)
    prune = threading.Thread(target=pruned, args=(core, request))
    act = getattr(where, name)

    def slowly(*asked: Any) -> Any:
        found = act(*asked)
        prune.start()
        until(lambda: not prune.is_alive() or core.has_waiting, what="the prune")
        return found

    patch.setattr(where, name, slowly)
    yield
    prune.join(60)
    assert not prune.is_alive()


def test_what_was_pruned_a_moment_ago_cannot_be_rerun(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = [old_good(core, f"v{n}", 200 - n) for n in range(3)]
    draft = rerun._draft

    def late(*asked: Any) -> Any:
        pruned(core, PruneRequest(max_age=90 * DAY, keep_releases=1))
        return draft(*asked)

    monkeypatch.setattr(rerun, "_draft", late)
    with pytest.raises(NotFound):
        rerun.rerun(core.desk, first, AGAIN, caller=ADMIN)
