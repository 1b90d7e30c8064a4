"""How what a check found is judged."""

from datetime import UTC, datetime, timedelta

import pytest

from manent_server.domain import checkup
from manent_server.domain.checkup import HeldLease, Level

AT = datetime(2027, 3, 1, tzinfo=UTC)
LASTS = timedelta(seconds=15)


@pytest.mark.parametrize(
    ("seconds", "unsure", "level"),
    [
        (0.2, 0.1, "ok"),
        (1.5, 0.1, "warn"),
        (-1.5, 0.1, "warn"),
        (1.5, 1.0, "ok"),
        (-31, 0.1, "fail"),
    ],
)
def test_clocks_that_differ(seconds: float, unsure: float, level: str) -> None:
    found = checkup.clock(timedelta(seconds=seconds), unsure=timedelta(seconds=unsure))
    assert found.level == level
    assert bool(found.next) == (level != "ok")


@pytest.mark.parametrize(
    ("free", "level"), [(10 * 2**30, "ok"), (2**30, "warn"), (100 * 2**20, "fail")]
)
def test_disks_that_fill(free: int, level: str) -> None:
    assert checkup.disk(free, "/srv").level == level


@pytest.mark.parametrize("name", ["fsync", "synchronous_commit", "full_page_writes"])
def test_a_database_that_forgets(name: str) -> None:
    good = {"fsync": "on", "synchronous_commit": "local", "full_page_writes": "on"}
    assert checkup.durability(good).level == Level.OK
    found = checkup.durability({**good, name: "off"})
    assert found.level == Level.FAIL
    assert name in found.words


def lease(name: str, holder: str = "w1:ab", seconds: float = 10) -> HeldLease:
    return HeldLease(name, holder, AT + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("rows", "level", "word"),
    [
        ([], "warn", "no server"),
        ([lease("wake"), lease("audit")], "ok", ""),
        ([lease("wake"), lease("audit", seconds=-1)], "fail", "nobody holds: audit"),
        ([lease("wake")], "fail", "nobody holds: audit"),
        ([lease("wake", seconds=60), lease("audit")], "fail", "wake"),
        ([lease("wake", "w2:ab"), lease("audit")], "warn", "w2"),
        ([lease("wake"), lease("audit"), lease("old", seconds=-1000)], "ok", ""),
        ([lease("wake"), lease("audit"), lease("retention:rest", "ab", 3600)], "ok", ""),
        ([lease("wake"), lease("audit"), lease("keys", seconds=-3000)], "ok", ""),
        ([lease("wake"), lease("audit"), lease("keys", seconds=-3700)], "fail", "holds: keys"),
    ],
)
def test_loops_nobody_runs(rows: list[HeldLease], level: str, word: str) -> None:
    second = timedelta(seconds=1)
    expected = {"wake": second, "audit": second, "keys": timedelta(hours=1)}
    found = checkup.leases(rows, expected, {"w2"}, at=AT, lasts=LASTS)
    assert found.level == level
    assert word in found.words


@pytest.mark.parametrize(
    ("seconds", "dead", "level"), [(10, 0, "ok"), (301, 0, "warn"), (0, 2, "warn")]
)
def test_receivers_that_lag(seconds: float, dead: int, level: str) -> None:
    assert checkup.lag("ops", seconds, dead).level == level


def test_the_gravest_counts() -> None:
    good, odd, bad = checkup.good("a"), checkup.warn("b", "c"), checkup.fail("d", "e")
    assert checkup.worst([good, bad, odd]) is bad
    assert checkup.worst([odd, good]) is odd
    assert checkup.worst([]) is None
