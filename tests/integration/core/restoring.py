"""A restored database in tests: one that is below what somebody remembers of it."""

from manent_server.domain.installation import Known
from manent_server.store import audit, installation
from manent_server.store.installation import Installation
from manent_server.usecases import chain
from manent_server.usecases.guard import Guard
from tests.rig.core import Core


class Remembered:
    """What is kept outside of the database; like the file it is never lowered."""

    is_failing = False

    def __init__(self, known: Known | None = None) -> None:
        self.kept: Known | None = known

    def known(self, installation: str) -> Known | None:
        """What is kept of it."""
        return self.kept if self.kept and self.kept.installation == installation else None

    def note(self, known: Known) -> None:
        """Keep it."""
        before = self.known(known.installation)
        self.kept = known.with_all_of(before) if before else known


def guard(core: Core, memory: Remembered, *, name: str = "w1", fences: bool = True) -> Guard:
    """A process's guard on a core."""
    return Guard(core.store, memory, name=name, fences=fences)


def standing(core: Core) -> Installation:
    """The row of the installation."""
    with core.store.read() as tx:
        row = installation.read(tx)
    assert row is not None
    return row


def head(core: Core) -> tuple[int, str]:
    """The last number of the record, after everything written was chained."""
    with core.store.write() as tx:
        installation.begin(tx)  # no server numbers anything before
    chain.chain(core.desk)
    with core.store.read() as tx:
        return audit.head(tx)


def settled(core: Core) -> Remembered:
    """What a process remembers that has looked at the database as it is."""
    head(core)
    memory = Remembered()
    assert guard(core, memory).look()
    return memory


def unfence(core: Core) -> None:
    """Forget that it was fenced, where one database serves many tests."""
    core.store.watermark.move(epoch=0, number=0)
    with core.store.write() as tx:
        installation.update(tx, fenced_at=None, known_epoch=None, known_number=None)


def gone_back(core: Core, *, by: int = 50, epochs: int = 0) -> Remembered:
    """What a process remembers of a database that has lost so many records since."""
    memory = settled(core)
    known = memory.kept
    assert known is not None
    return Remembered(Known(known.installation, known.epoch + epochs, known.number + by))
