"""A reload while something else goes wrong: the process lives, and can be told to end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from manent_server.bootstrap import house as houses
from manent_server.bootstrap.house import House
from manent_server.engine.migration import library
from manent_server.store.engine import dispose
from manent_server.store.migrate import migrate
from manent_server.store.transaction import Store, Transaction

CONFIG = """
server: {listen: "127.0.0.1:0", url: "http://localhost"}
database: {url: "sqlite:///manent.db"}
environments: {staging: {tier: staging}}
applications: {}
"""


class Away(Store):
    """A database that goes away once the reload has read what it needs."""

    def __init__(self, store: Store) -> None:
        self.__dict__.update(store.__dict__)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        if True:
            raise sa.exc.OperationalError("BEGIN", {}, OSError("gone"))
        yield


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    path = tmp_path / "manent.yml"
    path.write_text(CONFIG)
    found = houses.open_house(path, {})
    migrate(found.engines, library=library())
    yield found
    dispose(found.engines)


def failures(house: House) -> int:
    text = house.metrics.render().decode()
    return int(float(text.split("\nmanent_reload_failed_total ")[1].split("\n")[0]))


def more_room(house: House) -> None:
    house.settings.path.write_text(CONFIG.replace("tier: staging", "tier: staging, concurrency: 4"))


@pytest.mark.timeout(60)
def test_a_reload_without_a_database_keeps_nobody_from_ending(house: House):
    """I17: whoever was told to end meanwhile waits for no answer."""
    more_room(house)
    house.store = Away(house.store)
    asked: list[None] = []

    def is_told_to_end() -> bool:
        asked.append(None)
        return len(asked) > 1

    house.reload(is_told_to_end)
    assert len(asked) > 1
    assert house.settings.environments["staging"].concurrency == 1
    assert failures(house) == 1


def test_an_outage_behind_a_reload_ends_no_process(house: House, monkeypatch: pytest.MonkeyPatch):
    """B35: the settings are in force; what could not be told is."""
    more_room(house)
    monkeypatch.setattr(houses.policy, "write", lambda *_, **__: True)
    house.store = Away(house.store)
    house.reload()
    assert house.settings.environments["staging"].concurrency == 4


@pytest.mark.parametrize("broken", ["a folder", "no text"])
def test_a_file_that_cannot_be_read_changes_nothing(house: House, broken: str):
    path = house.settings.path
    before = house.settings
    path.unlink()
    if broken == "a folder":
        path.mkdir()
    else:
        path.write_bytes(b"\xff\xfe\x00")
    house.reload()
    assert house.settings is before
    assert failures(house) == 1
