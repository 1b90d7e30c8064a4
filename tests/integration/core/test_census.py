"""What the metrics say of an installation, read from its database."""

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from manent_server.bootstrap import rota
from manent_server.domain import tally
from manent_server.domain.access import MANENT
from manent_server.domain.deploy import Outcome
from manent_server.domain.marks import Sort
from manent_server.observability.metrics import Metrics
from manent_server.retention import prune as pruning
from manent_server.store.transaction import Transaction
from manent_server.usecases import census, mark, publish
from manent_server.usecases.requests import MarkRequest, PruneRequest
from tests.integration.core.restoring import gone_back, guard, unfence
from tests.integration.core.running import Running
from tests.rig.core import ADMIN, Core

MANY, EVERY = 10_000, 1_100


def watching(core: Core) -> Metrics:
    found = Metrics()
    read = census.read(core.desk, rota.rests(core.desk))
    found.watch_executors(lambda: read.beats)
    found.watch_sinks(lambda: read.sinks)
    found.watch_audit(lambda: (0.0, read.audit))
    found.watch_installation(lambda: read.census)
    found.of_the_process.watch_repeats(core.store.repeats)
    return found


def seen(core: Core) -> dict[str, float]:
    """Every sample by its name and labels, as a scraper sees it."""
    while publish.publish(core.desk):
        continue
    families = text_string_to_metric_families(watching(core).render().decode())
    return {
        " ".join([sample.name, *(f"{k}={v}" for k, v in sorted(sample.labels.items()))]): (
            sample.value
        )
        for family in families
        for sample in family.samples
    }


def test_ends_durations_and_attempts_are_counted_once_and_by_every_process(core: Core) -> None:
    running = Running(core)
    running.perform("deploy:web")
    running.close(Outcome.DEPLOYED)
    core.submit("mail")

    for _ in range(2):
        found = seen(core)

        assert found["manent_deploys_ended_total environment=staging outcome=deployed"] == 1
        assert found["manent_deploy_seconds_count state=SUCCESS"] == 1
        assert found["manent_deploy_queue_seconds_count"] == 1
        assert found["manent_deploy_gate_seconds_bucket le=1"] == 1
        assert found["manent_attempts_total hook=deploy result=succeeded"] == 1


def test_what_was_counted_outlives_the_deploys(core: Core) -> None:
    running = Running(core)
    running.close(Outcome.FAILED)
    before = seen(core)
    core.set_delivery(running.deploy.id, "SUCCESS")
    old = core.at() - timedelta(days=100)
    core.set(running.deploy.id, ended_at=old, requested_at=old)

    pruning.prune(core.desk, PruneRequest(max_age=timedelta(days=1), keep_releases=0), caller=ADMIN)

    after = seen(core)
    name = "manent_deploys_ended_total environment=staging outcome=failed"
    assert not core.rows("deploys")
    assert after[name] == before[name] == 1
    assert before["manent_pruned_deploys_total"] == 0
    assert "manent_prune_ended_timestamp_seconds" not in before
    assert after["manent_pruned_deploys_total"] == 1
    assert abs(after["manent_prune_ended_timestamp_seconds"] - core.at().timestamp()) < 60


def test_what_stands_in_the_way_is_shown(core: Core) -> None:
    running = Running(core)
    core.submit("mail")
    mark.put(core.desk, MarkRequest(Sort.LOCK, "no", "news", "staging"), caller=ADMIN)
    soon = core.at() + timedelta(days=1)
    planned = MarkRequest(Sort.FREEZE, "later", environment="staging", starts_at=soon)
    mark.put(core.desk, planned, caller=ADMIN)
    passed = MarkRequest(Sort.HOLD, "over", "mail", "staging", expires_at=soon)
    mark.put(core.desk, passed, caller=ADMIN)
    with core.store.write() as tx:
        marks = tx.tables.marks
        over = sa.update(marks).where(marks.c.sort == "hold")
        tx.connection.execute(over.values(expires_at=tx.now() - timedelta(seconds=1)))
    core.set(running.deploy.id, cancel_requested_at=core.at() - timedelta(minutes=11))
    worker = running.deploy.executor
    beat = core.at() - timedelta(hours=1)
    core.set_worker(str(worker), heartbeat_at=beat)
    core.worker("w7", configuration="a")
    core.worker("w8", configuration="b")
    with core.store.write() as tx:
        slots = tx.tables.slots
        tx.connection.execute(sa.update(slots).values(taken_at=tx.now() - timedelta(hours=1)))

    found = seen(core)

    assert found["manent_environment_queued_deploys environment=staging"] == 1
    assert found["manent_environment_blocked_seconds environment=staging"] >= 3600
    assert {name for name in found if "manent_marks" in name} == {
        "manent_marks by=people sort=lock"
    }
    assert found["manent_marks by=people sort=lock"] == 1
    assert found["manent_cancelling_seconds"] >= 660
    assert found[f"manent_executor_up executor={worker}"] == 0
    assert found[f"manent_executor_pending_deploys executor={worker}"] == 1
    assert found["manent_configurations"] == 2


def test_a_loop_nobody_runs_is_shown_once_its_round_is_overdue(core: Core) -> None:
    with core.store.write() as tx:
        leases = tx.tables.leases
        past = {"name": "wake", "holder": "h", "token": 7, "until": tx.now() - timedelta(hours=1)}
        rest = {**past, "name": "retention:rest"}
        gone = {**past, "name": "outbox:gone"}
        hourly = {**past, "name": "keys"}
        late = {**past, "name": "events", "until": tx.now() - timedelta(hours=2)}
        tx.connection.execute(sa.insert(leases), [past, rest, gone, hourly, late])

    found = seen(core)

    assert found["manent_lease_held lease=wake"] == 0
    assert found["manent_lease_token lease=wake"] == 7
    assert found["manent_lease_unheld_seconds lease=wake"] >= 3590
    # What is done once an hour has no holder in between: nobody is to be woken for that.
    assert found["manent_lease_unheld_seconds lease=keys"] < 60
    assert found["manent_lease_unheld_seconds lease=events"] >= 3600
    assert not [name for name in found if "rest" in name or "outbox:gone" in name]


def test_a_fence_shows(core: Core) -> None:
    memory = gone_back(core)
    assert seen(core)["manent_fenced"] == 0
    guard(core, memory).look()

    assert seen(core)["manent_fenced"] == 1
    unfence(core)


def test_however_many_deploys_there_are_no_more_series(core: Core) -> None:
    """Each end in each of a hundred environments: no deploy after these can add a series."""
    running = Running(core)
    running.perform("deploy:web")
    _multiply(core, running.deploy.id)

    found = seen(core)
    began = time.monotonic()
    census.read(core.desk, rota.rests(core.desk))
    took = time.monotonic() - began

    ended = {k: v for k, v in found.items() if k.startswith("manent_deploys_ended_total")}
    assert sum(ended.values()) == EVERY
    assert sum(v for k, v in ended.items() if "environment=other" in k) > 0
    assert len(ended) == (tally.MOST_ENVIRONMENTS + 1) * len(Outcome)
    assert len(found) < 600
    assert took < 5  # a tenth of a second or so on a machine that does nothing else


def _multiply(core: Core, deploy: str) -> None:
    """Ten thousand deploys of a hundred environments, and the events of each kind of end there."""
    outcomes = [str(outcome) for outcome in Outcome]
    with core.store.write() as tx:
        e = tx.tables.environments
        like = dict(tx.connection.execute(sa.select(e).limit(1)).mappings().one())
        tx.connection.execute(
            sa.insert(e), [{**like, "name": f"e{number}"} for number in range(100)]
        )
        d = tx.tables.deploys
        n = sa.select(sa.literal(1).label("i")).cte("n", recursive=True)
        n = n.union_all(sa.select(n.c.i + 1).where(n.c.i < MANY))
        i = sa.cast(n.c.i, sa.Text)
        outcome = sa.case(
            *((n.c.i % len(outcomes) == at, word) for at, word in enumerate(outcomes)),
            else_=outcomes[0],
        )
        values = {
            "id": sa.literal("copy-") + i,
            "environment": sa.literal("e") + sa.cast(n.c.i % 100, sa.Text),
            "application": sa.literal("app-") + i,
            "number": n.c.i,
            "state": sa.literal("CANCELLED"),
            "outcome": outcome,
            "ended_at": d.c.started_at,
        }
        columns = [column.name for column in d.c]
        copy = sa.select(*(values.get(name, d.c[name]) for name in columns)).where(d.c.id == deploy)
        tx.connection.execute(sa.insert(d).from_select(columns, copy.join_from(d, n, sa.true())))
        _tell(tx, values, d, deploy, n)


def _tell(tx: Transaction, values: Mapping[str, Any], d: sa.Table, deploy: str, n: Any) -> None:
    ev = tx.tables.events
    for kind in ("deploy.started", "deploy.ended"):
        told = {
            "id": sa.literal(kind) + values["id"],
            "at": d.c.requested_at,
            "type": sa.literal(kind),
            "actor": sa.literal(MANENT.name),
            "deploy": values["id"],
            "application": values["application"],
            "environment": values["environment"],
        }
        copy = sa.select(*told.values()).where(d.c.id == deploy).join_from(d, n, n.c.i <= EVERY)
        tx.connection.execute(sa.insert(ev).from_select(list(told), copy))
