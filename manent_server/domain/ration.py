"""How much of a flood is written down: some of each source, no more than so much in all."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass
class Ration:
    """Lets through so many in each window and counts the rest by kind.

    Args:
        each: Of one source.
        all: Of all sources together.
        window: How long a window lasts.
    """

    each: int
    all: int
    window: timedelta
    _began: float = float("-inf")
    _let: Counter[str] = field(default_factory=Counter)
    _rest: Counter[str] = field(default_factory=Counter)

    def lets(self, kind: str, source: str, *, at: float) -> bool:
        """Whether this one is let through.

        Args:
            kind: Under which it is counted if it is not.
            source: Who or what it comes from.
            at: Seconds, of a clock that is never set back.
        """
        if at - self._began >= self.window.total_seconds():
            self._began = at
            self._let.clear()
        # No source is remembered that was not let through: memory is bounded by `all`.
        if self._let.total() >= self.all or self._let[source] >= self.each:
            self._rest[kind] += 1
            return False
        self._let[source] += 1
        return True

    def rest(self) -> Mapping[str, int]:
        """How many were not let through since this was asked last, by kind."""
        found = dict(self._rest)
        self._rest.clear()
        return found
