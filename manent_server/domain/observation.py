"""How long a worker has been silent, on the clock of who watches it.

Two clocks must agree before anybody takes over: the database's, which every worker writes with,
and one that neither jumps nor stands still while the watcher is suspended. A step of the first,
or an outage of the database that nobody could write in, must not make the living look lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class Beat:
    """The heartbeat of one start of a worker, as the registry shows it."""

    incarnation: str
    heartbeat_at: datetime


@dataclass(frozen=True)
class _Seen:
    beat: Beat
    since: float


class Observation:
    """What one watcher has seen of every worker.

    Args:
        gap: Between two answers at most: after a longer one everything is observed anew.
    """

    def __init__(self, gap: timedelta) -> None:
        self._gap = gap.total_seconds()
        self._seen: dict[str, _Seen] = {}
        self._asked = self._answered = 0.0

    def note(self, beats: Mapping[str, Beat], *, asked: float, answered: float) -> bool:
        """Take an answer of the registry in.

        Args:
            beats: The newest heartbeat of every executor.
            asked: Seconds on the watcher's clock before the registry was asked.
            answered: Seconds on that clock once it had answered.

        Returns:
            False if the answer before was too long ago: everything is observed anew.
        """
        is_steady = answered - self._answered <= self._gap
        before = self._seen if is_steady else {}
        self._asked, self._answered = asked, answered
        self._seen = {
            executor: before[executor]
            if executor in before and before[executor].beat == beat
            else _Seen(beat, answered)
            for executor, beat in beats.items()
        }
        return is_steady

    def silence(self, executor: str, beat: Beat) -> timedelta:
        """For how long this very heartbeat was seen, by the last answer."""
        seen = self._seen.get(executor)
        if seen is None or seen.beat != beat:
            return timedelta(0)
        return timedelta(seconds=max(0.0, self._asked - seen.since))
