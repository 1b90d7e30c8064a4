"""The restore guard: a database that went back in time begins nothing until a person has decided.

Each `serve` process compares the database with what it remembers, in its memory and in a file
outside of the database, before it begins and then all the time. Whoever notices raises the fence,
a row that every process honours.
"""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Final, Protocol

from manent_server.domain import installation as rules
from manent_server.domain.access import MANENT
from manent_server.domain.installation import Known
from manent_server.store import installation as installations
from manent_server.store import records
from manent_server.store.installation import Installation
from manent_server.store.records import Deed
from manent_server.store.repeat import never
from manent_server.store.transaction import Store, Transaction
from manent_server.usecases import reopen

_log = logging.getLogger(__name__)
FENCE: Final = "fence"


class Memory(Protocol):
    """Where is kept, outside of the database, how far it has come."""

    @property
    def is_failing(self) -> bool:
        """Whether nothing can be kept just now."""

    def known(self, installation: str) -> Known | None:
        """What is kept of an installation."""

    def note(self, known: Known) -> None:
        """Keep it, unless something further is kept."""


class Changed(Exception):
    """Another database than before, or one that was fenced under this process: it must end."""


class Guard:
    """One process's look at the installation.

    Args:
        store: Where its row is; its watermark is moved along.
        memory: What is kept outside.
        name: Of the process, for the record.
        fences: False: what went back is only told.
    """

    def __init__(self, store: Store, memory: Memory, *, name: str, fences: bool) -> None:
        self._store = store
        self._memory = memory
        self._name = name
        self.fences = fences
        self._known: Known | None = None
        self._reload_asked: int | None = None
        self._is_told = False
        self.fence: str | None = None
        self.notes: list[str] = []

    def look(self, stop: Callable[[], bool] = never) -> bool:
        """Look at the database; whether it is open.

        Raises:
            Unavailable: `stop` said so before it answered, or only a part of it is there.
        """
        row = self._read(stop)
        if self._reload_asked is None:
            self._reload_asked = row.reload_asked
        known = self._remember(row)
        if row.is_fenced or rules.went_back(known, row.reached):
            row = self._store.repeat(lambda tx: self._settle(tx, known), stop=stop)
        self.fence = row.words if row.is_fenced else None
        if row.is_fenced:
            self._tell(row)
            return False
        self._follow(row)
        return True

    def watch(self, patience: timedelta = timedelta(seconds=5)) -> bool:
        """Look again while work goes on; whether a reload was asked for since the look before.

        Raises:
            Changed: Nothing may go on here: this process is to end and start anew.
        """
        # Before the look: what is numbered during it need not be in what it sees.
        numbered = self._store.watermark.values["known_number"]
        with self._store.read() as tx:
            row = installations.read(tx)
        if row is None or self._known is None or row.id != self._known.installation:
            raise Changed("the database was replaced by another one")
        known = self._known
        if known.epoch == row.epoch:
            # What this process has numbered itself since it looked last counts too. In an epoch it
            # has not seen yet that lies beyond the beginning, and says nothing of the one before.
            known = known.with_number(numbered)
        if row.is_fenced or rules.went_back(known, row.reached):
            # Also where somebody was faster: what is known here counts.
            settled = self._store.repeat(lambda tx: self._settle(tx, known), patience=patience)
            if settled.is_fenced:
                self.fence = settled.words
                self._tell(settled)
                raise Changed(settled.words)
            raise Changed("the database went back in time, and goes on by restore_guard: warn")
        self._follow(row)
        before, self._reload_asked = self._reload_asked, row.reload_asked
        return before != row.reload_asked

    def _read(self, stop: Callable[[], bool]) -> Installation:
        row = self._store.consult(installations.read, stop=stop)
        if row is not None:
            return row

        def begin(tx: Transaction) -> Installation | None:
            installations.begin(tx)
            return installations.read(tx)

        row = self._store.repeat(begin, stop=stop)
        if row is None:
            raise RuntimeError("the row of the installation is gone")
        _log.info("this database is the new installation %s", row.id)
        return row

    def _remember(self, row: Installation) -> Known:
        """What is known of this installation, by this process or by its file."""
        if self._known is not None and self._known.installation == row.id:
            return self._known
        kept = self._memory.known(row.id)
        if kept is None and (row.number, row.epoch) > (0, 1):
            _log.warning(
                "nothing is noted here of installation %s: epoch %s and audit number %s are taken "
                "from the database as they stand",
                row.id,
                row.epoch,
                row.number,
            )
        return kept or Known(row.id)

    def _follow(self, row: Installation) -> None:
        """It has come further."""
        known = Known(row.id, row.epoch, row.number)
        if known != self._known:
            self._known = known
            self._store.watermark.move(epoch=row.epoch, number=row.number)
            self._memory.note(known)
        elif self._memory.is_failing:
            self._memory.note(known)

    def _settle(self, tx: Transaction, known: Known) -> Installation:
        """Raise the fence, or say that it went back; add what is known here if it stands."""
        row = installations.lock(tx)
        if row is None:
            raise Changed("the row of the installation is gone")
        if row.is_fenced:
            further = row.known.with_all_of(known)
            installations.update(tx, known_epoch=further.epoch, known_number=further.number)
        elif rules.went_back(known, row.reached):
            self._fence(tx, row, known)
        return installations.read(tx) or row

    def _fence(self, tx: Transaction, row: Installation, known: Known) -> None:
        at = tx.now()
        detail = {
            "epoch": row.epoch,
            "number": row.number,
            "known_epoch": known.epoch,
            "known_number": known.number,
            "by": self._name,
        }
        if not self.fences:
            _log.error(
                "the database went back in time: its record ends at %s, %s is known; it goes on "
                "because of restore_guard: warn",
                row.number,
                known.number,
            )
            words = f"a restored database goes on: {row.number + 1} to {known.number} are missing"
            self.notes = [words]
            reopen.reopen(tx, row, known, reopen.Words(MANENT, "restore_guard: warn"))
            return
        installations.update(
            tx,
            fenced_at=at,
            fenced_by=self._name,
            restored_epoch=row.epoch,
            restored_number=row.number,
            known_epoch=known.epoch,
            known_number=known.number,
        )
        records.write_audit(tx, Deed(MANENT, rules.FENCED, detail=detail), at=at)

    def _tell(self, row: Installation) -> None:
        if not self._is_told:
            self._is_told = True
            _log.error("%s; next: manent-server admin restore list", row.words)
