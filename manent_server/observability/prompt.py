"""An answer in bounded time, and not asked for again at once: for scrapes."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_log = logging.getLogger("manent.metrics")
FRESH: Final = 3.0
PATIENCE: Final = 2.0


class NotInTime(Exception):
    """Whoever was asked has not answered yet, or failed a moment ago."""


class Prompt(Generic[T]):
    """Asks in a thread of its own, of which there is never more than one.

    Args:
        ask: What may take long.
        fresh: For how many seconds an answer, or a failure, stands.
        patience: How many seconds an answer is waited for.
    """

    def __init__(
        self, ask: Callable[[], T], *, fresh: float = FRESH, patience: float = PATIENCE
    ) -> None:
        self._ask = ask
        self._fresh = fresh
        self._patience = patience
        self._changed = threading.Condition()
        self._answer: T | None = None
        self._answered_at: float | None = None
        self._failed_at: float | None = None
        self._asking = False

    def __call__(self) -> T:
        """The answer, at most a little old.

        Raises:
            NotInTime: There is none.
        """
        with self._changed:
            has_come = False
            if not self._is_new(self._failed_at):
                self._begin()
                was_asking = self._asking
                self._changed.wait_for(lambda: not self._asking, self._patience)
                has_come = was_asking and not self._asking and self._failed_at is None
            if self._asking and not self._is_new(self._answered_at):
                # Others who want the same now need not wait too.
                self._failed_at = time.monotonic()
            if self._answer is None or not (has_come or self._is_new(self._answered_at)):
                raise NotInTime
            return self._answer

    def _begin(self) -> None:
        if self._asking or self._is_new(self._answered_at):
            return
        self._asking = True
        threading.Thread(target=self._run, name="census", daemon=True).start()

    def _is_new(self, at: float | None) -> bool:
        return at is not None and time.monotonic() - at < self._fresh

    def _run(self) -> None:
        answer = None
        try:
            answer = self._ask()
        except Exception as error:  # noqa: BLE001 - a scrape tells of an outage, it never fails
            _log.warning("the metrics cannot ask the database: %s", type(error).__name__)
        with self._changed:
            self._asking = False
            if answer is None:
                self._failed_at = time.monotonic()
            else:
                self._answer, self._answered_at, self._failed_at = answer, time.monotonic(), None
            self._changed.notify_all()
