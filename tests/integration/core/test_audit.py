"""The record: kept as written, numbered without a hole, and every change of it found."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.domain.audit import Known
from manent_server.store import audit as rows
from manent_server.store import records
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import chain, verify
from manent_server.usecases.desk import Desk
from manent_server.worker.loops import Job, Loop
from tests.integration.core.recording import Spoil, by_force, do, emptied
from tests.rig.core import Core
from tests.rig.process import until

LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def core(core: Core) -> Core:
    """Nothing is on record, not even its own configuration."""
    return emptied(core)


@pytest.fixture
def postgres_core(postgres_core: Core) -> Core:
    return emptied(postgres_core)


def found(core: Core, known: Known | None = None) -> str | None:
    broken = verify.verify(core.store, known=known).broken
    return f"{broken.kind} {broken.number}" if broken else None


def entry(core: Core, number: int) -> int:
    return next(int(row["entry"]) for row in core.rows("audit_chain") if row["number"] == number)


def test_every_record_gets_its_number_and_its_hash(core: Core):
    do(core, 3)
    do(core)
    assert verify.verify(core.store).waiting == 4
    chain.chain(core.desk)

    told = verify.verify(core.store)
    assert (told.records, told.waiting, told.broken) == (4, 0, None)
    assert sorted(row["number"] for row in core.rows("audit_chain")) == [1, 2, 3, 4]
    assert {row["entry"] for row in core.rows("audit_chain")} == {
        row["entry"] for row in core.rows("audit")
    }


def test_a_deed_that_is_undone_leaves_no_hole(core: Core):
    def undone(tx: Transaction) -> None:
        records.write_audit(tx, Deed("ann", "lock.set"), at=tx.now())
        raise ZeroDivisionError

    do(core)
    with pytest.raises(ZeroDivisionError):
        core.store.repeat(undone)
    do(core)
    chain.chain(core.desk)

    told = verify.verify(core.store)
    assert (told.records, told.broken) == (2, None)


def test_what_commits_late_gets_a_later_number(postgres_core: Core):
    core = postgres_core
    with core.store.write() as late:
        records.write_audit(late, Deed("late", "lock.set"), at=late.now())
        do(core)
        chain.chain(core.desk)
    assert verify.verify(core.store).waiting == 1
    chain.chain(core.desk)

    told = verify.verify(core.store)
    assert (told.records, told.broken, told.waiting) == (2, None, 0)
    last = entry(core, 2)
    assert [row["actor"] for row in core.rows("audit") if row["entry"] == last] == ["late"]


@pytest.mark.parametrize("table", ["audit", "audit_chain"])
@pytest.mark.parametrize("verb", ["UPDATE", "DELETE"])
def test_the_database_refuses_to_change_or_remove_a_record(core: Core, table: str, verb: str):
    do(core)
    chain.chain(core.desk)

    def change(tx: Transaction) -> None:
        which = getattr(tx.tables, table)
        statement = (
            sa.delete(which) if verb == "DELETE" else sa.update(which).values(entry=which.c.entry)
        )
        tx.connection.execute(statement)

    with pytest.raises(sa.exc.DBAPIError, match="never changed or removed"):
        core.store.repeat(change)
    assert found(core) is None


@pytest.mark.parametrize("table", ["audit", "audit_chain"])
def test_no_record_makes_room_for_itself(sqlite_core: Core, table: str):
    """SQLite fires no trigger of a deletion where an insert replaces what is there."""
    core = emptied(sqlite_core)
    do(core, 2)
    chain.chain(core.desk)
    before = core.rows(table)
    insert = f"INSERT OR REPLACE INTO manent_{table} SELECT * FROM manent_{table}"  # noqa: S608 - names of ours
    with (
        pytest.raises(sa.exc.IntegrityError, match="never changed or removed"),
        core.store.write() as tx,
    ):
        tx.connection.exec_driver_sql(insert)
    assert core.rows(table) == before


def test_the_record_cannot_be_emptied_at_once(postgres_core: Core):
    do(postgres_core)
    with (
        pytest.raises(sa.exc.DBAPIError, match="never changed or removed"),
        postgres_core.store.write() as tx,
    ):
        tx.connection.exec_driver_sql("TRUNCATE manent.audit")


def _update(table: str, of: int, **values: Any) -> Spoil:
    def spoil(tx: Transaction) -> None:
        which = getattr(tx.tables, table)
        tx.connection.execute(sa.update(which).where(which.c.entry == of).values(**values))

    return spoil


def _delete(table: str, of: int) -> Spoil:
    def spoil(tx: Transaction) -> None:
        which = getattr(tx.tables, table)
        tx.connection.execute(sa.delete(which).where(which.c.entry == of))

    return spoil


def _insert(tx: Transaction) -> None:
    """A record beside the chain, past the trigger."""
    a = tx.tables.audit
    values = {"id": "extra", "at": tx.now(), "actor": "eve", "action": "lock.set", "record": "{}"}
    tx.connection.execute(a.insert().values(**values))
    tx.connection.execute(sa.delete(tx.tables.audit_waiting))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda of: _update("audit", of, record="{}"), "changed 3"),
        (lambda of: _update("audit", of, actor="eve"), "changed 3"),
        (lambda of: _update("audit", of, id="x"), "changed 3"),
        (lambda of: _update("audit", of, at=LATER), "changed 3"),
        (lambda of: _update("audit", of, action="lock.se"), "changed 3"),
        (lambda of: _update("audit", of, deploy="d1"), "changed 3"),
        (lambda of: _update("audit", of, application=None), "changed 3"),
        (lambda of: _update("audit", of, environment=None), "changed 3"),
        (lambda of: _update("audit", of, actor='ann","action":"x'), "changed 3"),
        (lambda of: _update("audit_chain", of, hash="0" * 64), "changed 3"),
        (lambda of: _delete("audit", of), "missing 3"),
        (lambda of: _delete("audit_chain", of), "hole 3"),
        (lambda _: _insert, "extra None"),
    ],
    ids=[
        *("text", "actor", "id", "at", "action", "deploy", "application", "environment"),
        *("quotes", "hash", "record gone", "place gone", "slipped in"),
    ],
)
def test_each_change_is_found_where_it_is(core: Core, make: Callable[[int], Spoil], kind: str):
    do(core, 5, application="shop", environment="production")
    chain.chain(core.desk)
    by_force(core, make(entry(core, 3)))
    assert found(core) == kind


def test_a_value_of_another_kind_is_found_where_it_is(sqlite_core: Core):
    """Which would hide a record from whoever looks for the actor."""
    core = emptied(sqlite_core)
    do(core, 5)
    chain.chain(core.desk)
    by_force(core, _update("audit", entry(core, 3), actor=sa.text("x'616e6e'")))
    assert found(core) == "changed 3"


def test_values_that_need_quotes_are_as_good_as_others(core: Core):
    for application in (
        'a"b\\c',
        "\x01\b\x1f\x7f\n\t",
        "ü\u2028\U0001f600",
        ',"deploy":null',
        "null",
    ):
        do(core, application=application)
        do(core, deploy=application)
    chain.chain(core.desk)
    assert found(core) is None


def test_two_records_in_each_others_place_are_found(core: Core):
    do(core, 4)
    chain.chain(core.desk)
    two, three = entry(core, 2), entry(core, 3)

    def swap(tx: Transaction) -> None:
        for of, to in ((two, -1), (three, two), (-1, three)):
            _update("audit_chain", of, entry=to)(tx)

    by_force(core, swap)
    assert found(core) == "changed 2"


def test_a_record_that_goes_before_it_has_a_number_is_missed(core: Core):
    do(core, 2)
    by_force(core, _delete("audit", min(row["entry"] for row in core.rows("audit"))))
    chain.chain(core.desk)
    assert found(core) == "missing None"


def test_a_chain_cut_or_made_anew_shows_against_what_was_kept(core: Core):
    do(core, 3)
    chain.chain(core.desk)
    kept = verify.verify(core.store)
    known = Known(kept.records, kept.hash)
    assert found(core, known) is None

    def cut(tx: Transaction) -> None:
        for table in ("audit", "audit_chain"):
            _delete(table, last)(tx)

    last = entry(core, 3)
    by_force(core, cut)
    assert found(core) is None
    assert found(core, known) == "cut 3"
    do(core)
    chain.chain(core.desk)
    assert found(core, known) == "rewritten 3"


def test_two_chainers_at_once_take_turns(postgres_core: Core):
    """Whose lease has ended unseen finds nothing left to do, and no number taken."""
    core = postgres_core
    do(core, 3)
    counts: list[int] = []

    def other() -> None:
        with core.store.write() as tx:
            counts.append(rows.chain(tx, limit=9))

    late = threading.Thread(target=other)
    with core.store.write() as tx:
        counts.append(rows.chain(tx, limit=9))
        late.start()
        until(lambda: core.has_waiting, what="the second to wait for the first")
    late.join()
    assert counts == [3, 0]
    assert found(core) is None


def _write(core: Core, count: int) -> None:
    for number in range(count):
        do(core, 3 if number % 4 == 0 else 1)


def _number(core: Core, holder: str, is_over: threading.Event) -> None:
    def make(desk: Desk) -> Callable[[], object]:
        return partial(chain.chain, desk)

    job = Job("audit", timedelta(milliseconds=1), make)
    loop = Loop(core.desk, holder, job, lasts=timedelta(milliseconds=200))
    while not is_over.is_set():
        loop.round()


def test_many_writers_and_two_chainers_leave_one_chain(postgres_core: Core):
    """I12: no hole, no number twice, whoever writes and whoever holds the lease."""
    core, is_over = postgres_core, threading.Event()
    writers = [threading.Thread(target=_write, args=(core, 16)) for _ in range(4)]
    chainers = [threading.Thread(target=_number, args=(core, name, is_over)) for name in "ab"]
    for thread in [*writers, *chainers]:
        thread.start()
    for thread in writers:
        thread.join()
    is_over.set()
    for thread in chainers:
        thread.join()
    chain.chain(core.desk)

    told = verify.verify(core.store)
    assert (told.records, told.waiting, told.broken) == (4 * (16 + 2 * 4), 0, None)


def test_a_role_that_may_only_add_is_enough(postgres_core: Core):
    """What the page grants: to write records and to chain them, and nothing else."""
    page = Path(__file__).parents[3] / "docs/how-to/keep-and-check-the-record.md"
    grants = page.read_text().partition("```sql\n")[2].partition("```")[0].split(";")
    with postgres_core.store.write() as tx:
        run = tx.connection.exec_driver_sql
        run("CREATE ROLE manent_server")
        try:
            for grant in filter(str.strip, grants):
                run(grant)
            run("GRANT INSERT ON manent.events TO manent_server")
            run("GRANT USAGE ON ALL SEQUENCES IN SCHEMA manent TO manent_server")
            run("SET LOCAL ROLE manent_server")
            records.write_audit(tx, Deed("ann", "lock.set"), at=tx.now())
            assert rows.chain(tx, limit=10) == 1
            with pytest.raises(sa.exc.ProgrammingError, match="permission denied"), tx.savepoint():
                run("DELETE FROM manent.audit_chain")
            with pytest.raises(sa.exc.ProgrammingError, match="permission denied"), tx.savepoint():
                run("UPDATE manent.audit SET actor = 'eve'")
        finally:
            run("RESET ROLE")
            run("DROP OWNED BY manent_server")
            run("DROP ROLE manent_server")
