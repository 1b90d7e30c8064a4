"""The restore guard: nothing begins on a database that went back in time."""

import logging
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from manent_server.domain.errors import Conflict, Unavailable
from manent_server.domain.installation import Known, least_epoch_of_deploys
from manent_server.domain.marks import Sort
from manent_server.engine import prelude
from manent_server.engine.handout import Refusal
from manent_server.engine.prelude import Verdict
from manent_server.store import installation, workers
from manent_server.store.installation_file import InstallationFile
from manent_server.store.workers import LeaseLost
from manent_server.usecases import health, mark
from manent_server.usecases.guard import Changed
from manent_server.usecases.requests import MarkRequest
from manent_server.usecases.tenure import Tenure
from manent_server.usecases.verify import verify
from tests.integration.core.restoring import (
    Remembered,
    gone_back,
    guard,
    head,
    settled,
    standing,
    unfence,
)
from tests.integration.core.running import Running
from tests.rig.core import ADMIN, Core

_LASTS = timedelta(minutes=1)


def test_a_database_that_went_back_begins_nothing(core: Core) -> None:
    """B139: no admission, prelude, hand-out and lease, in any process, until a person decided."""
    running = Running(core, "shop")
    dispatched = core.submit("mail", "production")
    held = Tenure(core.store, "wake", "me", lasts=_LASTS)
    assert held.take()
    memory = gone_back(core)
    core.store.watermark.move(epoch=0, number=0)  # as in another process, which knows nothing
    keeper = guard(core, memory)
    assert not keeper.look()
    assert keeper.fence is not None
    assert "went back in time" in keeper.fence
    row = standing(core)
    assert (row.restored_number, row.known_number) == (row.number, row.number + 50)
    waiting = core.submit("news", "production")
    core.admit("production")
    assert core.deploy(waiting).phase == "queued"
    before = core.deploy(dispatched)
    claim = core.claim(dispatched, before.dispatch, running.worker)
    with core.store.write() as tx:
        assert prelude.begin(tx, claim, core.dispatcher).verdict == Verdict.FENCED
        with pytest.raises(LeaseLost):
            held.demand(tx)
    assert core.deploy(dispatched) == before
    assert running.hand_out(running.errand()).refusal == Refusal.NOT_MINE
    for name in ("wake", "recovery", "a lease nobody ever had"):
        assert not Tenure(core.store, name, "another", lasts=_LASTS).take()
    found = health.ready(core.desk)
    assert (found["ready"], found["reasons"]) == (False, [keeper.fence])
    with core.store.read() as tx, pytest.raises(Conflict) as refused:
        installation.demand_open(tx)
    assert (refused.value.code, refused.value.detail) == ("restore_fenced", keeper.fence)


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_running_process_begins_nothing_before_it_has_noticed(core: Core, epochs: int) -> None:
    """B139: restored under a running process: its own memory closes the database at once.

    Also where the database lost an opening, and has come further than that with its numbers.
    """
    running = Running(core)
    keeper = guard(core, settled(core))
    assert keeper.look()
    known = keeper._known
    assert known is not None
    ahead = Known(known.installation, known.epoch + epochs, 0 if epochs else known.number + 1)
    keeper._known = ahead
    core.store.watermark.move(epoch=ahead.epoch, number=ahead.number)
    assert standing(core).fenced_at is None
    assert running.hand_out(running.errand()).refusal == Refusal.NOT_MINE
    assert not Tenure(core.store, "wake", "me", lasts=_LASTS).take()
    with pytest.raises(Changed, match="went back in time"):
        keeper.watch()
    assert standing(core).fenced_at is not None


def test_what_a_process_has_numbered_itself_it_knows_at_once(core: Core) -> None:
    """B139: the dump is as old as its last look; what it numbered since is missing in it."""
    keeper = guard(core, settled(core))
    assert keeper.look()
    mark.put(core.desk, MarkRequest(Sort.HOLD, "now", "shop", "staging"), caller=ADMIN)
    number, _ = head(core)
    assert core.store.watermark.values["known_number"] == number
    keeper.watch()
    with core.store.write() as tx:
        chained = tx.tables.audit_chain
        core.store.watermark.numbered(number + 1)
        assert tx.connection.execute(sa.select(sa.func.max(chained.c.number))).scalar() == number
    with pytest.raises(Changed, match="went back in time"):
        keeper.watch()
    unfence(core)


def test_what_is_numbered_during_a_look_is_not_forgotten(core: Core) -> None:
    """B139: the look saw less than has been numbered by the time it has its answer."""
    keeper = guard(core, settled(core))
    assert keeper.look()
    known = core.store.watermark.values
    core.store.watermark.numbered(known["known_number"] + 1)
    core.store.watermark.move(epoch=known["known_epoch"], number=known["known_number"])
    with pytest.raises(Changed, match="went back in time"):
        keeper.watch()
    unfence(core)


def test_what_is_numbered_in_a_later_epoch_says_nothing_of_the_one_before(core: Core) -> None:
    """B139: it was restored and opened while this process stood still, and numbers before it
    looks: nothing went back since."""
    keeper = guard(core, settled(core))
    assert keeper.look()
    memory = gone_back(core)
    assert guard(core, memory, name="w2", fences=False).look()
    core.store.watermark.move(epoch=1, number=1)  # as its process, which has not looked
    mark.put(core.desk, MarkRequest(Sort.HOLD, "now", "shop", "staging"), caller=ADMIN)
    head(core)
    assert core.store.watermark.values["known_number"] > standing(core).began
    keeper.watch()
    assert standing(core).epoch == 2
    assert [r["action"] for r in core.rows("audit")].count("restore.opened") == 1


def test_the_highest_of_all_memories_counts(core: Core) -> None:
    """B139: two workers with files of their own: the fence knows what the one knows that had
    seen more, also when it comes later."""
    memory = gone_back(core, by=10)
    assert not guard(core, memory).look()
    known = memory.kept
    assert known is not None
    later = Remembered(Known(known.installation, known.epoch, known.number + 30))
    assert not guard(core, later, name="w2").look()
    assert not guard(core, Remembered(), name="w3").look()
    row = standing(core)
    assert (row.fenced_by, row.known_number) == ("w1", known.number + 30)
    assert [r["action"] for r in core.rows("audit")].count("restore.fenced") == 1


def test_the_epoch_alone_tells_too(core: Core) -> None:
    """B139: a dump of before the last restore is older whatever number it came to."""
    assert not guard(core, gone_back(core, by=-5, epochs=1)).look()


def test_who_remembers_nothing_takes_the_database_as_it_is(
    core: Core, caplog: pytest.LogCaptureFixture
) -> None:
    """B139: a process without the file, as a copy of the database for trying out has it."""
    core.submit()
    assert guard(core, settled(core)).look()
    memory = Remembered()
    with caplog.at_level(logging.WARNING):
        assert guard(core, memory).look()
    assert "nothing is noted here" in caplog.text
    row = standing(core)
    assert memory.kept == Known(row.id, 1, row.number)


def test_with_warn_it_goes_on_beyond_what_was_known(core: Core) -> None:
    """B139: `restore_guard: warn`; numbers of the record and epochs are not given twice."""
    running = Running(core)
    epoch = core.deploy(running.deploy.id).epoch
    memory = gone_back(core)
    known = memory.kept
    assert known is not None
    keeper = guard(core, memory, fences=False)
    assert keeper.look()
    assert "are missing" in keeper.notes[0]
    row = standing(core)
    assert (row.fenced_at, row.epoch) == (None, 2)
    assert row.number == row.began + 1 > known.number
    with core.store.write() as tx:
        worker = workers.read(tx, "w1")
    assert worker is not None
    assert worker.stopped_at is not None
    assert worker.recovered_by == "manent"
    core.worker("w2")
    later = core.submit("mail", "production")
    assert core.deploy(later).epoch > max(epoch, least_epoch_of_deploys(2))
    number, last = head(core)
    found = verify(core.store)
    assert found.broken is None
    assert (found.records, found.hash) == (number, last)
    assert found.gaps == [(known.number - 50 + 1, row.began)]
    assert guard(core, memory, name="w2", fences=False).look()


def test_a_new_database_is_no_restored_one(core: Core, tmp_path: Path) -> None:
    """B139: emptied by `migrate` it is another installation: the old file is put aside."""
    file = InstallationFile(tmp_path)
    file.note(Known("old", 3, 4711))
    assert guard(core, file).look()  # type: ignore[arg-type]
    assert (tmp_path / "installation-old").exists()
    row = standing(core)
    assert file.known(row.id) == Known(row.id, 1, row.number)
    # The right one is restored afterwards: what was put aside is known again.
    assert file.known("old") == Known("old", 3, 4711)


def test_half_a_restored_database_is_no_new_one(core: Core) -> None:
    """B139: a dump that is read in table by table under a server that starts again and again."""
    memory = gone_back(core)
    row = standing(core)
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.installation.delete())
    with pytest.raises(Unavailable, match="but a history"):
        guard(core, memory).look()
    with core.store.write() as tx:
        values = {"one": 1, "id": row.id, "epoch": 1, "began": 0, "reload_asked": 0}
        tx.connection.execute(tx.tables.installation.insert(), values | {"created_at": tx.now()})
    assert not guard(core, memory).look()


def test_a_database_made_anew_under_a_process_ends_it(core: Core) -> None:
    keeper = guard(core, settled(core))
    assert keeper.look()
    with core.store.write() as tx:
        installation.update(tx, id="another")
    with pytest.raises(Changed, match="replaced"):
        keeper.watch()
