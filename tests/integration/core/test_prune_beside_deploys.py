"""A prune of a long history beside deploys: killed, asked for twice, gone on with."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml

from manent_server.domain.deploy import Outcome
from manent_server.domain.errors import Conflict
from manent_server.retention import prune as pruning
from manent_server.store import transaction as transactions
from manent_server.store.room import Room
from manent_server.usecases.requests import PruneRequest
from tests.integration.core.running import Running
from tests.rig.core import ADMIN, Core
from tests.rig.process import Process, until
from tests.rig.serve import BIN, path_environment

DEPLOYS, LINES = 2000, 5
OLD = PruneRequest(max_age=timedelta(days=90), keep_releases=1)
_DAWDLE = """
CREATE FUNCTION public.dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_sleep(0.001); RETURN OLD; END $$;
CREATE TRIGGER dawdle BEFORE DELETE ON manent.deploys FOR EACH ROW
EXECUTE FUNCTION public.dawdle()
"""
_PLACES = {"staging": {"targets": {"web": {}}}}

_ID = "lpad(to_hex(n), 20, '0')"
_AT = "now() - interval '100 days' - n * interval '1 minute'"
_CHANGED = {
    "deploys": {
        "id": _ID, "root": _ID, "number": "-n", "epoch": "-n", "replaces": "NULL",
        "requested_at": _AT, "started_at": _AT, "ended_at": _AT,
    },
    "steps": {"deploy": _ID},
    "attempts": {"deploy": _ID, "id": f"{_ID} || t.id"},
    "logs": {"deploy": _ID, "sequence": "1000 + m"},
}  # fmt: skip


def performed(core: Core, application: str, version: str, *, line: bool = False) -> str:
    """A deploy from its acceptance to its end."""
    running = Running(core, application, version=version)
    for step in ("deploy:web", "verify:web"):
        running.perform(step)
    if line:
        with core.store.write() as tx:
            row = {"deploy": running.deploy.id, "sequence": 1, "lines": 1, "size": 80}
            row |= {"at": tx.now(), "stream": "stdout", "text": "." * 80}
            tx.connection.execute(tx.tables.logs.insert().values(row))
    assert running.close(Outcome.DEPLOYED)
    return running.deploy.id


@pytest.mark.postgres
def test_a_prune_holds_one_connection_at_a_time(
    postgres_core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B142: with a small `database.pool` the loops have one connection: it waits for no second."""
    monkeypatch.setattr(transactions, "Room", partial(Room, patience=timedelta(milliseconds=50)))
    performed(postgres_core, "shop", "1")
    desk = replace(postgres_core.desk, store=postgres_core.store.sparing(1))
    found = pruning.prune(desk, PruneRequest(max_age=timedelta(seconds=0.001)), caller=ADMIN)
    assert found["kept"] == {"current": 1}


def multiply(core: Core, template: str) -> None:
    """Make so many old deploys of one that ran, each with steps, attempts and log rows."""
    with core.store.write() as tx:
        for name, changed in _CHANGED.items():
            table = getattr(tx.tables, name)
            key = "id" if name == "deploys" else "deploy"
            columns = [column.name for column in table.columns]
            values = ", ".join(changed.get(one, f't."{one}"') for one in columns)
            names = ", ".join(f'"{one}"' for one in columns)
            series = f"generate_series(1, {DEPLOYS}) n"
            series += f", generate_series(1, {LINES}) m" if name == "logs" else ""
            text = f"""INSERT INTO {table.fullname} ({names}) SELECT {values}
                FROM (SELECT * FROM {table.fullname} WHERE {key} = '{template}') t, {series}"""  # noqa: S608 - names of ours
            tx.connection.exec_driver_sql(text.replace("%", "%%"))
            # As the database does by itself a minute later.
            tx.connection.exec_driver_sql(f"ANALYZE {table.fullname}")


class Pruner(Process):
    """`admin prune` as a process of its own."""

    def __init__(self, core: Core, folder: Path) -> None:
        url = core.engines.ours.url.set(drivername="postgresql")
        config = {
            "database": {"url": url.render_as_string(hide_password=False)},
            "environments": {"staging": {"tier": "staging"}},
            "applications": {
                "shop": {
                    "plugin": "command", "options": {"deploy": ["true"]}, "environments": _PLACES,
                }
            },
        }  # fmt: skip
        file = folder / "manent.yml"
        file.write_text(yaml.safe_dump(config))
        words = ["admin", "prune", "--local", "--max-age", "2160h", "--keep-releases", "1"]
        environ = {**path_environment(folder), "MANENT_CONFIG": str(file)}
        super().__init__(
            [str(BIN / "manent-server"), *words], log=folder / "prune.log", environ=environ
        )


def old(core: Core, table: str = "deploys", key: str = "id") -> int:
    """How many of them are there still."""
    with core.store.read() as tx:
        t = getattr(tx.tables, table)
        query = sa.select(sa.func.count(sa.distinct(t.c[key]))).where(t.c[key].startswith("0000"))
        return int(tx.connection.execute(query).scalar_one())


@contextmanager
def deploying(core: Core) -> Iterator[list[float]]:
    """Deploys, one after the other, all the time; how long each took."""
    took: list[float] = []
    wrong: list[BaseException] = []
    stopped = threading.Event()

    def work() -> None:
        try:
            # The pruner's process is one; this one must leave it the machine now and then.
            while not stopped.wait(0.2):
                began = time.monotonic()
                performed(core, "mail", f"{len(took)}")
                took.append(time.monotonic() - began)
        except BaseException as error:  # noqa: BLE001 - told to the test
            wrong.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield took
    finally:
        stopped.set()
        thread.join(60)
    assert not wrong


def on_record(core: Core) -> int:
    """Of how many deploys the record says that they were deleted."""
    found = [row for row in core.rows("audit") if row["action"] == pruning.BATCH]
    return sum(row["detail"]["deploys"] for row in found)


def refused(core: Core) -> bool:
    """Whether a second prune hears that one is at work."""
    try:
        pruning.prune(core.desk, OLD, caller=ADMIN)
    except Conflict as error:
        return error.code == "prune_running"
    return False


@contextmanager
def dawdling(core: Core) -> Iterator[None]:
    """Each deploy takes its time to be deleted, so that half of them are on any machine once."""
    with core.engines.lone.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(_DAWDLE)
        try:
            yield
        finally:
            connection.exec_driver_sql("DROP FUNCTION public.dawdle() CASCADE")


def end_of_lease(core: Core) -> None:
    """As if the time of the one who was killed had passed."""
    with core.store.write() as tx:
        leases = tx.tables.leases
        ended = sa.update(leases).where(leases.c.name == pruning.LEASE).values(until=tx.now())
        tx.connection.execute(ended)


@pytest.mark.postgres
def test_a_prune_that_is_killed_hurts_no_deploy_and_the_next_one_goes_on(
    postgres_core: Core, tmp_path: Path
) -> None:
    """B97: 2,000 finished deploys x 5 log rows; pruned while deploys run, by one at a time; killed
    half-way it leaves whole deploys only, all on record, and the next one does the rest."""
    core = postgres_core
    multiply(core, performed(core, "shop", "1", line=True))
    kept = performed(core, "shop", "2")
    assert (old(core), old(core, "logs", "deploy")) == (DEPLOYS, DEPLOYS)
    with deploying(core) as took:
        with dawdling(core):
            first = Pruner(core, tmp_path)
            half = DEPLOYS * 2 // 3
            until(lambda: old(core) < half or not first.is_running(), what="half", longest=0.02)
            assert refused(core), first.last_words()
            first.kill()
        left = old(core)
        assert 0 < left < DEPLOYS
        assert on_record(core) == DEPLOYS - left
        for table in ("steps", "attempts", "logs"):
            assert old(core, table, "deploy") == left
        assert refused(core)  # nobody knows that it is dead before its lease has ended
        end_of_lease(core)
        assert pruning.prune(core.desk, OLD, caller=ADMIN)["deploys"] == left
        assert (old(core), on_record(core)) == (0, DEPLOYS)
        beside = len(took)
    assert beside > 3
    ends = Counter((row["application"], row["outcome"]) for row in core.rows("deploys"))
    assert ends == {("mail", "deployed"): len(took), ("shop", "deployed"): 2}
    assert kept in {row["id"] for row in core.rows("deploys")}
