"""Retention leaves a rollback its way back."""

import sqlalchemy as sa

from manent_server.domain.marks import Sort
from manent_server.usecases import mark, roll_back
from manent_server.usecases.requests import MarkRequest, PruneRequest, RollbackRequest
from tests.integration.core.test_prune import DAY, old_good, pruned
from tests.rig.core import ADMIN, Core


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
