"""Retention at work: rounds by the configuration, batches, and the artifacts on a disk."""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.domain.errors import Unavailable
from manent_server.domain.tally import PRUNE_ENDED
from manent_server.retention import keeping
from manent_server.retention import prune as pruning
from manent_server.retention import shelf as shelves
from manent_server.retention.shelf import Shelf
from manent_server.sources.artifacts import Artifacts
from manent_server.store import tallies
from manent_server.store.transaction import Transaction
from manent_server.usecases.requests import PruneRequest
from tests.integration.core.pruning import DAY, good, left, old_bad, old_good, pruned
from tests.rig.core import Core


def test_rounds_prune_by_the_configuration_once_in_an_interval(core: Core) -> None:
    old_bad(core, "1", 100)
    good(core, "2")
    rounds = pruning.Rounds(core.desk)
    rounds.round()
    assert len(left(core)) == 2  # retention is off

    core.configure(retention=replace(core.settings.retention, max_age=90 * DAY))
    rounds.round()
    assert len(left(core)) == 1
    assert [row["action"] for row in core.rows("audit")].count("history.pruned") == 1
    old_bad(core, "3", 100)
    pruning.Rounds(core.desk).round()  # another process, the same interval
    assert len(left(core)) == 2

    with core.store.write() as tx:  # an end that a clock has drawn which was set back since
        rest = sa.update(tx.tables.leases).where(tx.tables.leases.c.name == "retention:rest")
        tx.connection.execute(rest.values(until=tx.now() + 9 * DAY))
    rounds.round()
    assert len(left(core)) == 1
    old_bad(core, "4", 100)
    rounds.round()
    assert len(left(core)) == 2


def test_a_round_that_finds_nothing_has_ended_too(core: Core) -> None:
    core.configure(retention=replace(core.settings.retention, max_age=90 * DAY))
    pruning.Rounds(core.desk).round()
    with core.store.read() as tx:
        ended = tallies.everything(tx)[PRUNE_ENDED, ""]
    assert abs(core.at().timestamp() - ended) < 60


def test_artifacts_nothing_needs_go_from_the_workers_disk(core: Core, tmp_path: Path) -> None:
    needed, unneeded, fresh = "a" * 64, "b" * 64, "c" * 64
    old_bad(core, "0", 120)
    live = old_good(core, "1", 100)
    core.set(live, prepared={"artifacts": {"web": {"url": "u", "sha256": needed}}})
    whole = tmp_path / "sha256"
    whole.mkdir()
    for name in (needed, unneeded, fresh):
        (whole / name).write_text("x")
        long_ago = (1.0, 1.0) if name != fresh else None
        os.utime(whole / name, long_ago)
    shelf = Shelf(core.desk, Artifacts(tmp_path))
    assert shelf.round() == 0  # retention is off
    core.configure(retention=replace(core.settings.retention, max_age=90 * DAY))
    assert shelf.round() == 1
    assert {path.name for path in whole.iterdir()} == {needed, fresh}


@pytest.mark.parametrize("state", ["ENQUEUED", "SUCCESS"], ids=["live", "ends meanwhile"])
def test_artifacts_of_a_live_deploy_and_of_what_it_goes_back_to_stay(
    core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """One that has waited for days may still deploy, and roll back to what was there."""
    asked, resolved, past, unneeded = (letter * 64 for letter in "abcd")
    back = {"web": {"version": "0", "artifact": {"url": "u", "sha256": past}}, "host": None}
    prepared = {"artifacts": {"web": {"url": "u", "sha256": resolved}}, "past": back}
    deploy = core.submit(version="1")
    core.set(deploy, prepared=prepared, sha256=asked)
    whole = tmp_path / "sha256"
    whole.mkdir()
    for name in (asked, resolved, past, unneeded):
        (whole / name).write_text("x")
        os.utime(whole / name, (1.0, 1.0))
    core.configure(retention=replace(core.settings.retention, max_age=90 * DAY))

    def surveyed(*words: Any, **more: Any) -> keeping.Keeping:
        found = keeping.survey(*words, **more)
        if state == "SUCCESS":
            core.set(deploy, state=state, outcome="deployed", ended_at=core.at())
        return found

    monkeypatch.setattr(shelves, "survey", surveyed)
    Shelf(core.desk, Artifacts(tmp_path)).round()
    assert {path.name for path in whole.iterdir()} == {asked, resolved, past}


def test_an_artifact_somebody_is_given_now_is_not_taken_from_it(tmp_path: Path) -> None:
    source = tmp_path / "v1"
    source.write_text("content")
    artifacts = Artifacts(tmp_path / "cache")
    found = artifacts.fetch(source.as_uri())
    os.utime(found.path, (1.0, 1.0))
    again = Artifacts(tmp_path / "cache")
    assert again.fetch(source.as_uri(), sha256=found.sha256).path.exists()
    assert again.tidy(set(), idle=timedelta(minutes=1)) == 0
    os.utime(found.path, (1.0, 1.0))
    assert again.tidy(set(), idle=timedelta(minutes=1)) == 1


def test_what_runs_and_what_comes_before_it_stay_where_nothing_is_to_be_kept(core: Core) -> None:
    for n in range(4):
        old_good(core, f"v{n}", 200 - n)
    request = PruneRequest(max_age=90 * DAY, keep_releases=0)
    assert pruned(core, request)["kept"] == {"current": 1, "previous": 1}


def test_the_engines_copy_of_every_dispatch_goes(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of takeovers and waits before the last one are usually gone; not of a killed worker."""
    gone = old_bad(core, "1", 100)
    good(core, "2")
    core.set(gone, dispatch=3)
    asked: list[str] = []
    monkeypatch.setattr(core.desk.dispatcher.client, "delete_workflows", asked.extend)
    pruned(core)
    assert asked == [f"{gone}.{n}" for n in (1, 2, 3)]


@pytest.mark.postgres
def test_a_deploy_somebody_holds_is_left_to_the_next_prune(postgres_core: Core) -> None:
    """B97: nobody waits for the other. On SQLite nothing is held beside a prune."""
    core = postgres_core
    held, free = old_bad(core, "1", 101), old_bad(core, "2", 100)
    good(core, "3")
    with core.store.write() as tx:
        d = tx.tables.deploys
        tx.connection.execute(sa.select(d.c.id).where(d.c.id == held).with_for_update())
        assert pruned(core)["deploys"] == 1
    assert held in left(core)
    assert free not in left(core)
    assert pruned(core)["deploys"] == 1


def test_who_has_lost_the_lease_deletes_nothing_more(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        old_bad(core, f"{n}", 100 + n)
    good(core, "9")
    monkeypatch.setattr(pruning, "_SMALLEST", 1)
    monkeypatch.setattr(pruning, "_LARGEST", 1)
    delete = pruning.retention.delete

    def stolen(tx: Transaction, ids: Sequence[str], **more: Any) -> Any:
        """Another takes the lease when the first batch is done."""
        leases = tx.tables.leases
        taken = sa.update(leases).where(leases.c.name == pruning.LEASE)
        tx.connection.execute(taken.values(holder="another", token=leases.c.token + 1))
        return delete(tx, ids, **more)

    monkeypatch.setattr(pruning.retention, "delete", stolen)
    with pytest.raises(Unavailable):
        pruned(core)
    assert len(left(core)) == 3
