"""Leases, logs, policy and tokens: rows with promises of their own."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from manent_server.domain.errors import Conflict, Invalid, NotFound, NotSignedIn
from manent_server.store import deploys, logs, sessions, workers
from manent_server.store.logs import Chunk, Line, Origin
from manent_server.usecases import policy, tokens
from manent_server.usecases.authenticate import authenticate
from manent_server.usecases.mint import mint
from manent_server.usecases.requests import TokenRequest
from tests.rig.core import ADMIN, Core, long_ago

LASTS = timedelta(seconds=30)
OUT = Origin("deploy:web", 1, "out", None, "w1")
ERR = replace(OUT, stream="err")


def take(core: Core, holder: str) -> workers.Lease | None:
    with core.store.write() as tx:
        return workers.take_lease(tx, "wake", holder, lasts=LASTS, at=tx.now())


def holds(core: Core, lease: workers.Lease | None) -> bool:
    assert lease is not None
    with core.store.read() as tx:
        return workers.holds_lease(tx, lease, at=tx.now())


def expire(core: Core) -> None:
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.leases.update().values(until=long_ago()))


def test_one_acts_while_its_lease_lasts(core: Core):
    """I13"""
    first = take(core, "w1")
    assert holds(core, first)
    assert take(core, "w2") is None
    assert take(core, "w1") == first


def test_a_lease_that_ended_goes_on_with_a_higher_token(core: Core):
    """I13"""
    first = take(core, "w1")
    expire(core)
    assert not holds(core, first)
    second = take(core, "w2")
    assert first is not None
    assert second is not None
    assert second.token > first.token
    assert not holds(core, first)
    expire(core)
    third = take(core, "w2")
    assert third is not None
    assert third.token > second.token


def test_a_lease_given_up_is_free_at_once(core: Core):
    first = take(core, "w1")
    assert first is not None
    with core.store.write() as tx:
        workers.give_up_lease(tx, first)
    assert take(core, "w2") is not None
    with core.store.write() as tx:
        workers.give_up_lease(tx, first)  # no longer its own: nothing happens
    assert take(core, "w3") is None


def test_of_many_who_take_a_lease_at_once_one_has_it(core: Core):
    found: list[workers.Lease | None] = []
    names = [f"w{number}" for number in range(6)]
    threads = [
        threading.Thread(target=lambda name=name: found.append(take(core, name))) for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([lease for lease in found if lease is not None]) == 1


def write(core: Core, deploy: str, epoch: int | None, *chunks: Chunk) -> tuple[int, int] | None:
    with core.store.write() as tx:
        return logs.append(tx, deploy, epoch, chunks)


def lines(
    core: Core, deploy: str, after: int = 0, limit: int = 1000, size: int = 10**6
) -> list[Line]:
    with core.store.read() as tx:
        return logs.read(tx, deploy, after=after, limit=limit, size=size)


@pytest.fixture
def deploy(core: Core) -> str:
    return core.submit()


def test_lines_are_numbered_from_one(core: Core, deploy: str):
    at = core.at()
    chunks = [Chunk(at, OUT, "a\nb"), Chunk(at, ERR, ""), Chunk(at, OUT, "c")]
    assert write(core, deploy, None, *chunks) == (1, 5)
    found = [(line.sequence, line.text, line.origin.stream) for line in lines(core, deploy)]
    assert found == [(1, "a", "out"), (2, "b", "out"), (3, "", "err"), (4, "c", "out")]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("size", [1, 6, 10**6])
def test_a_log_read_in_pieces_is_the_log(core: Core, deploy: str, limit: int, size: int):
    """I11"""
    said = [f"{number:03}" for number in range(40)]
    at = core.at()
    for begin, end in ((0, 1), (1, 9), (9, 10), (10, 40)):
        write(core, deploy, None, Chunk(at, OUT, "\n".join(said[begin:end])))
    found, after = list[str](), 0
    while piece := lines(core, deploy, after, limit, size):
        assert len(piece) <= limit
        assert [line.sequence for line in piece] == list(range(after + 1, after + 1 + len(piece)))
        found += [line.text for line in piece]
        after = piece[-1].sequence
    assert found == said


def test_a_log_ends_where_it_ends(core: Core, deploy: str):
    assert lines(core, deploy) == []
    write(core, deploy, None, Chunk(core.at(), OUT, "a\nb"))
    assert lines(core, deploy, after=2) == []
    assert lines(core, deploy, after=99) == []
    assert lines(core, "0" * 20) == []


def test_a_writer_of_an_older_epoch_writes_nothing(core: Core, deploy: str):
    """I2"""
    epoch = core.deploy(deploy).epoch
    assert write(core, deploy, epoch, Chunk(core.at(), OUT, "mine")) == (1, 2)
    assert write(core, deploy, epoch - 1, Chunk(core.at(), OUT, "late")) is None
    assert [line.text for line in lines(core, deploy)] == ["mine"]
    assert core.deploy(deploy).log_next == 2


def test_two_writers_of_different_epochs_leave_no_hole(core: Core, deploy: str):
    """I11"""
    at, epoch = core.at(), core.deploy(deploy).epoch
    given: list[tuple[int, int] | None] = []

    def go(mine: int) -> None:
        for number in range(8):
            given.append(
                write(core, deploy, mine, Chunk(at, OUT, "\n".join([f"{mine} {number}"] * 3)))
            )

    threads = [threading.Thread(target=go, args=(epoch + add,)) for add in (0, 1)]
    for thread in threads:
        thread.start()
    core.set(deploy, epoch=epoch + 1)
    for thread in threads:
        thread.join()
    numbers = [line.sequence for line in lines(core, deploy)]
    assert numbers == list(range(1, core.deploy(deploy).log_next))
    kept = sorted(pair for pair in given if pair is not None)
    assert [begin for begin, _ in kept] == [1, *[end for _, end in kept[:-1]]]
    owners = [line.text.split()[0] for line in lines(core, deploy)]
    assert owners == sorted(owners)


def test_what_no_database_takes_is_replaced(core: Core, deploy: str):
    write(core, deploy, None, Chunk(core.at(), OUT, "a\x00b\n\ud800"))
    assert [line.text for line in lines(core, deploy)] == ["a\ufffdb", "\ufffd"]


def test_the_middle_of_a_log_can_go(core: Core, deploy: str):
    for number in range(5):
        write(core, deploy, None, Chunk(core.at(), OUT, f"{number}\n{number}"))
    with core.store.write() as tx:
        assert logs.drop(tx, deploy, since=3, before=8) == 4
    assert [line.sequence for line in lines(core, deploy)] == [1, 2, 7, 8, 9, 10]
    assert [line.sequence for line in lines(core, deploy, after=2)] == [7, 8, 9, 10]
    row = core.deploy(deploy)
    assert (row.log_dropped, row.log_next, row.log_bytes) == (4, 11, 9)


def concurrency(core: Core) -> dict[str, int]:
    return {row["name"]: row["concurrency"] for row in core.rows("environments")}


def test_settings_in_force_are_never_overwritten_by_older_ones(core: Core):
    older = core.settings
    core.change_environment("staging", concurrency=7)
    assert not policy.write(core.store, older, release="1.0", by="w2")
    assert concurrency(core)["staging"] == 7
    assert policy.differs(core.store, older)
    assert not policy.differs(core.store, core.settings)


def test_a_newer_release_counts_more_than_newer_files(core: Core):
    older = core.settings
    core.change_environment("staging", concurrency=7)
    assert policy.write(core.store, older, release="1.10", by="w2")
    assert concurrency(core)["staging"] == 1
    assert not policy.write(core.store, core.settings, release="1.9", by="w1")


def test_the_same_settings_write_nothing(core: Core):
    before = core.rows("policies")
    assert policy.write(core.store, core.settings, release="1.0", by="w2")
    assert core.rows("policies") == before


def test_what_is_configured_no_more_keeps_its_rows_and_counters(core: Core):
    core.submit()
    known = dict(core.settings.environments)
    del known["staging"]
    core.configure(environments=known)
    row = next(row for row in core.rows("environments") if row["name"] == "staging")
    assert (row["is_configured"], row["next_number"]) == (False, 2)


def test_an_application_with_live_deploys_cannot_be_dropped(core: Core):
    deploy = core.submit()
    applications = dict(core.settings.applications)
    del applications["shop"]
    after = replace(core.settings, applications=applications)
    with core.store.read() as tx, pytest.raises(Conflict, match=deploy):
        policy.demand_may_go(tx, core.settings, after)
    core.set(deploy, state="SUCCESS", outcome="deployed")
    with core.store.read() as tx:
        policy.demand_may_go(tx, core.settings, after)


def test_a_token_is_shown_once_and_stored_as_a_digest(core: Core):
    text = tokens.create(core.desk, TokenRequest("ci", "admin"), caller=ADMIN)["token"]
    assert authenticate(core.desk, text).name == "ci"
    for table in ("tokens", "audit"):
        assert text not in str(core.rows(table))
    (item,) = tokens.listing(core.desk, caller=ADMIN)["items"]
    assert text.startswith(item["shown"])
    assert (item["role"], item["created_by"], item["revoked_at"]) == ("admin", "ann", None)


def test_a_revoked_token_is_worth_nothing_at_once(core: Core):
    text = tokens.create(core.desk, TokenRequest("ci", "viewer"), caller=ADMIN)["token"]
    (item,) = tokens.listing(core.desk, caller=ADMIN)["items"]
    first = tokens.revoke(core.desk, item["id"], caller=ADMIN)
    assert first["revoked_at"]
    with pytest.raises(NotSignedIn):
        authenticate(core.desk, text)
    assert tokens.revoke(core.desk, item["id"], caller=ADMIN)["revoked_at"] == first["revoked_at"]
    with pytest.raises(NotFound):
        tokens.revoke(core.desk, "gone", caller=ADMIN)


@pytest.mark.parametrize("lasts", [timedelta(0), timedelta(seconds=-1)])
def test_a_token_that_would_end_at_once_is_not_made(core: Core, lasts: timedelta):
    with pytest.raises(Invalid, match="ends at once"):
        tokens.create(core.desk, TokenRequest("ci", "viewer", lasts), caller=ADMIN)["token"]
    assert core.rows("tokens") == []


def test_a_token_that_expired_is_worth_nothing(core: Core):
    lasts = timedelta(microseconds=1)
    text = tokens.create(core.desk, TokenRequest("ci", "viewer", lasts), caller=ADMIN)["token"]
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.tokens.update().values(expires_at=long_ago()))
    with pytest.raises(NotSignedIn):
        authenticate(core.desk, text)


def test_a_role_that_is_not_there_is_refused(core: Core):
    with pytest.raises(Invalid, match="there is no role"):
        tokens.create(core.desk, TokenRequest("ci", "root"), caller=ADMIN)["token"]


def test_what_is_no_token_of_ours_is_not_even_looked_up(core: Core):
    good = mint()
    wrong = ["", "x", good[:-1] + ("a" if good[-1] != "a" else "b"), good + "a", "ü" + good]
    for text in [*wrong, good]:
        with pytest.raises(NotSignedIn):
            authenticate(core.desk, text)


def test_the_clock_that_comes_with_a_lock_was_read_after_the_lock_was_got(core: Core):
    deploy = core.submit()
    is_locked = threading.Event()

    def hold() -> datetime:
        with core.store.write() as tx:
            deploys.lock(tx, deploy)
            is_locked.set()
            time.sleep(0.2)
            return tx.now()

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        assert is_locked.wait(10)
        with core.store.write() as tx:
            deploys.lock(tx, deploy)
            mine = tx.now()
        assert mine >= holding.result()


def test_an_assertion_is_good_for_one_session(core: Core):
    row = {"source": "trust:shop", "principal": "trust:shop#5", "groups": [], "proof": "p"}
    with core.store.write() as tx:
        ends = tx.now() + timedelta(minutes=15)
        lasts = {"created_at": tx.now(), "expires_at": ends}
        assert sessions.insert(tx, row | lasts | {"id": "s1", "hash": "h1"})
        assert not sessions.insert(tx, row | lasts | {"id": "s2", "hash": "h2"})
        assert [one.id for one in sessions.live(tx, at=tx.now())] == ["s1"]
        assert sessions.newest_end(tx) is None
        assert sessions.revoke(tx, "s1", at=tx.now())
        assert not sessions.revoke(tx, "s1", at=tx.now())
        assert sessions.by_hash(tx, "h1", at=tx.now()) is None
        assert sessions.newest_end(tx) is not None
        sessions.forget(tx, before=ends + timedelta(days=1), limit=10)
        assert sessions.read(tx, "s1") is None
