"""`doctor` on a database: each check finds its thing when it is broken, and only then."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from manent_migrations.naming import Naming
from manent_server.bootstrap import rota
from manent_server.domain import checkup, question
from manent_server.domain.checkup import Finding, HeldLease, durability
from manent_server.domain.question import Question, Topic
from manent_server.domain.secret import Secret
from manent_server.retention import prune
from manent_server.settings.values import NoticeRetry, Webhook
from manent_server.store import audit_positions as positions
from manent_server.store import examination, migrate, notices, workers
from manent_server.usecases import examine
from manent_server.usecases.examine import Rota
from tests.integration.core.restoring import gone_back, guard, unfence
from tests.integration.core.running import Running
from tests.rig.core import Core

LASTS = timedelta(seconds=15)
GONE = timedelta(minutes=10)


def has(found: Finding, level: str, *words: str) -> None:
    assert found.level == level, found
    for word in words:
        assert word in found.words + found.next, found
    assert bool(found.next) == (level != "ok")


def test_clocks(core: Core) -> None:
    has(examine.clock(core.desk, time.time), "ok")
    has(examine.clock(core.desk, lambda: time.time() - 5), "warn", "+5.0")
    has(examine.clock(core.desk, lambda: time.time() + 60), "fail", "-60.0")


def test_a_restored_database(core: Core) -> None:
    memory = gone_back(core)
    has(examine.restored(core.desk), "ok")
    guard(core, memory).look()
    has(examine.restored(core.desk), "fail", "went back in time", "restore list")
    has(examine.leases(core.desk, Rota({"wake": LASTS}, {}, LASTS)), "ok", "fenced")
    unfence(core)


def test_leases(core: Core) -> None:
    def look() -> Finding:
        second = timedelta(seconds=1)
        return examine.leases(core.desk, Rota({"wake": second}, {"recovery": second}, LASTS))

    has(look(), "warn", "no server")
    core.worker("w1")
    with core.store.write() as tx:
        workers.take_lease(tx, "wake", "w1:ab", lasts=LASTS, at=tx.now())
    has(look(), "fail", "nobody holds: recovery")
    with core.store.write() as tx:
        workers.take_lease(tx, "recovery", "w1:ab", lasts=LASTS, at=tx.now())
    has(look(), "ok")
    core.set_worker("w1", heartbeat_at=core.at() - GONE)
    has(look(), "warn", "w1")
    with core.store.write() as tx:
        tx.connection.execute(sa.update(tx.tables.leases).values(until=tx.now() - LASTS))
    # Without a worker nobody can hold those of workers.
    found = look()
    has(found, "fail", "nobody holds: wake")
    assert "recovery" not in found.words


def test_the_lease_of_a_prune_is_nobodys_between_two_rounds(core: Core) -> None:
    """However long a lease lasts: it is given up, so that a person's command may have it."""
    lasts, now = timedelta(seconds=90), core.at()
    expected = {prune.LEASE: rota.rota(core.desk, lasts).of_workers[prune.LEASE]}
    for silent, level in ((60, "ok"), (600, "fail")):
        row = HeldLease(prune.LEASE, "w1:ab", now - timedelta(seconds=silent))
        has(checkup.leases([row], expected, set(), at=now, lasts=lasts), level)


def test_workers(core: Core) -> None:
    has(examine.crew(core.desk), "warn", "pool default")
    core.worker("w1", plugins=["other"])
    has(examine.crew(core.desk), "fail", "fake")
    core.worker("w2")
    has(examine.crew(core.desk), "ok")
    core.set_worker("w2", draining=True)
    has(examine.crew(core.desk), "fail", "fake")


def test_configurations_that_differ(core: Core) -> None:
    core.worker("w1", configuration=core.settings.digest)
    has(examine.configuration(core.desk), "ok")
    core.worker("w2", configuration="another")
    has(examine.configuration(core.desk), "warn", "w2")
    core.set_worker("w2", stopped_at=core.at())
    has(examine.configuration(core.desk), "ok")
    # The rows are as before; this process has read other files.
    core.settings = replace(core.settings, environments={})
    has(examine.configuration(core.desk), "warn", "policy in force")


def _lost(core: Core) -> None:
    Running(core)
    core.set_worker("w1", heartbeat_at=core.at() - GONE)
    core.worker("w2")


def _lost_and_alone(core: Core) -> None:
    core.recover_automatically()
    Running(core)
    core.set_worker("w1", heartbeat_at=core.at() - GONE)


def _taken_over_soon(core: Core) -> None:
    core.recover_automatically()
    _lost(core)


def _version_gone(core: Core) -> None:
    Running(core)
    core.worker("w1", version="9.9.9")
    core.worker("w2", version="9.9.9")


def _dispatched_to_nobody(core: Core) -> None:
    core.worker("w1")
    core.submit()
    core.set_worker("w1", stopped_at=core.at())


def _plugin_gone(core: Core) -> None:
    core.worker("w1")
    core.submit()
    core.set_worker("w1", plugins=["other"])


def _unknown_to_the_engine(core: Core) -> None:
    core.worker("w1")
    deploy = core.submit()
    core.set_delivery(deploy, "CANCELLED")


@pytest.mark.parametrize(
    ("strand", "level", "words"),
    [
        (_lost, "fail", ("on w1", "admin recover --executor w1")),
        (_lost_and_alone, "fail", ("no live worker takes from pool default",)),
        (_taken_over_soon, "warn", ("taken over",)),
        (_version_gone, "fail", ("workflow version 0.1.0",)),
        (_dispatched_to_nobody, "fail", ("no live worker takes from pool default",)),
        (_plugin_gone, "fail", ("plugin fake",)),
        (_unknown_to_the_engine, "warn", ("reconciler",)),
    ],
)
def test_deploys_nobody_goes_on_with(
    core: Core, strand: Callable[[Core], None], level: str, words: tuple[str, ...]
) -> None:
    has(examine.stranded(core.desk), "ok")
    strand(core)
    has(examine.stranded(core.desk), level, *words)


def test_deploys_that_run_or_wait_in_order_are_no_finding(core: Core) -> None:
    Running(core)
    core.submit(version="2")
    core.submit("mail")
    has(examine.stranded(core.desk), "ok", "3 deploys")


def test_a_deploy_that_waits_for_a_person_is_no_finding(core: Core) -> None:
    """Also where nobody is there to go on with it: what it waits for is the answer."""
    deploy = Running(core).deploy.id
    asked = Question(Topic.PAUSED, 1, ("deploy:web",), "it has used up its tries", core.at())
    core.set(deploy, phase="paused", question=question.dump(asked))
    core.set_worker("w1", stopped_at=core.at())
    has(examine.stranded(core.desk), "ok", "1 deploys")


def test_receivers_of_the_record(core: Core, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("audit") / "audit.jsonl"
    core.settings = replace(core.settings, audit=replace(core.settings.audit, file=file))
    has(examine.record(core.desk), "ok")
    with core.store.write() as tx:
        positions.fail(tx, "file", "disk full", at=tx.now())
    has(examine.record(core.desk), "fail", "disk full")
    with core.store.write() as tx:
        positions.move(tx, "file", 0, at=tx.now())
    old = core.at() - timedelta(hours=1)
    with core.store.write() as tx:
        a = tx.tables.audit
        row = {"id": "old", "at": old, "actor": "x", "action": "x", "record": "{}"}
        tx.connection.execute(sa.delete(tx.tables.audit_waiting))
        tx.connection.execute(a.insert().values(**row))
    has(examine.record(core.desk), "fail", "no number yet")


def test_sinks(core: Core) -> None:
    minute = timedelta(minutes=1)
    hook = Webhook(
        plugin="webhook", url=Secret("https://hook.example"), secret=(), events=("deploy.*",),
        applications=("*",), environments=("*",), allow_networks=(), timeout=minute,
        retry=NoticeRetry(initial=minute, factor=1, cap=minute, total=minute),
    )  # fmt: skip
    core.settings = replace(core.settings, notify={"ops": hook})
    has(examine.told(core.desk), "ok", "1 sinks")
    with core.store.write() as tx:
        notices.turn_off(tx, "ops", "it says 410", at=tx.now())
    has(examine.told(core.desk), "fail", "ops", "410")


def test_the_engine(core: Core) -> None:
    has(examine.engine(core.desk), "ok")


@pytest.mark.postgres
def test_a_database_that_forgets(postgres_core: Core) -> None:
    engines = postgres_core.engines
    name = engines.ours.url.database
    # The servers of tests keep nothing on disk: the check says so of a real one.
    assert "synchronous_commit" not in durability(examination.promises(engines)).words
    with engines.lone.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
        try:
            has(durability(examination.promises(engines)), "fail", "synchronous_commit")
        finally:
            connection.exec_driver_sql(f'ALTER DATABASE "{name}" RESET synchronous_commit')


@pytest.mark.postgres
def test_a_role_that_may_only_read(postgres_core: Core) -> None:
    """And one that may but add to the record, which is enough."""
    engines = postgres_core.engines
    assert examination.lacking(engines) == []
    schemas = "IN SCHEMA manent, dbos"
    with engines.lone.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        say = connection.exec_driver_sql
        say("CREATE ROLE reader LOGIN")
        try:
            say("GRANT USAGE ON SCHEMA manent, dbos TO reader")
            say(f"GRANT SELECT ON ALL TABLES {schemas} TO reader")
            reader = replace(
                engines, lone=sa.create_engine(engines.lone.url.set(username="reader"))
            )
            found = examination.lacking(reader)
            assert {"manent.audit", "manent.deploys", "manent.epochs"} <= set(found)
            say(f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES {schemas} TO reader")
            say(f"GRANT USAGE ON ALL SEQUENCES {schemas} TO reader")
            say("REVOKE UPDATE, DELETE ON manent.audit, manent.audit_chain FROM reader")
            assert examination.lacking(reader) == []
            reader.lone.dispose()
        finally:
            say("DROP OWNED BY reader")
            say("DROP ROLE reader")


def test_what_the_database_said_is_told_without_its_statement(core: Core) -> None:
    with core.engines.lone.connect() as connection, pytest.raises(sa.exc.DBAPIError) as raised:
        connection.exec_driver_sql("SELECT 1 FROM nowhere")
    words, advice = examination.said(raised.value) or ("", "")
    assert "nowhere" in words
    assert "SELECT" not in words
    assert advice is None or "tables" in advice
    assert examination.said(RuntimeError("x")) is None


def test_tables_of_a_newer_release(core: Core) -> None:
    name = Naming(core.engines.dialect).table("alembic_version")
    name = f"manent.{name}" if core.engines.dialect == "postgresql" else name
    assert migrate.newer(core.engines) is None
    with core.engines.lone.connect() as connection:
        say = connection.exec_driver_sql
        known = say(f"SELECT version_num FROM {name}").scalar_one()  # noqa: S608 - names of ours
        connection.rollback()

        def put(revision: str) -> None:
            say(f"UPDATE {name} SET version_num = '{revision}'")  # noqa: S608 - names of ours
            connection.commit()

        put("9999")
        try:
            assert migrate.newer(core.engines) == "9999"
        finally:
            put(known)
