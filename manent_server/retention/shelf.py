"""The artifacts on a worker's disk: those that no kept deploy needs go."""

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from manent_server.domain.retention import Policy
from manent_server.retention.keeping import survey
from manent_server.sources.artifacts import Artifacts
from manent_server.store import retention
from manent_server.usecases.desk import Desk

_log = logging.getLogger(__name__)
_IDLE: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Shelf:
    """Rounds of one worker over its own cache, while retention is on."""

    desk: Desk
    artifacts: Artifacts
    idle: timedelta = _IDLE

    def round(self) -> int:
        """Remove what neither a live deploy nor what one may go back to needs; how many."""
        known = self.desk.settings().retention
        if known.max_age <= timedelta(0):
            return 0
        policy = Policy(known.max_age, known.keep_releases)
        store = self.desk.store
        with store.read() as tx:
            before = tx.now() - policy.max_age
            needed = retention.needed_artifacts(tx, ())  # of what ends during the survey, too
        kept = survey(store, policy, before=before, promoting=frozenset(), pulse=lambda: None)
        with store.read() as tx:
            needed |= retention.needed_artifacts(tx, kept.reasons)
        gone = self.artifacts.tidy(needed, idle=self.idle)
        if gone:
            _log.info("removed %d artifacts that nothing needs any more", gone)
        return gone
