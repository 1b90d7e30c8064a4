"""The life of a server process: wait for a signal, end with the right code."""

import os
import select
import signal
from collections.abc import Callable
from datetime import timedelta
from types import FrameType
from typing import Any

from manent_server.usecases.desk import STARTING

RESTART_ME = 75
_LOST = "the executor row is another's"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Switches:
    """What signals and the worker's loss ask of the main thread.

    Handlers only set flags: a lock taken in a handler could be one that the interrupted thread
    holds. The main thread is woken by the interpreter itself, which writes to the pipe from
    whichever thread the kernel gave the signal to: one that was sent while the process was frozen
    goes to any of them, and the handlers would wait for the main thread to wake by chance.
    """

    def __init__(self) -> None:
        self.is_ready = False
        self.is_ended = False
        self.is_lost = False
        self._why_lost = _LOST
        self.is_reload = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def listen(self) -> None:
        """Take over the signals of this process; a second one to end ends it now."""
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, self._end)
        signal.signal(signal.SIGHUP, self._hang_up)

    def lose(self, why: str = _LOST) -> None:
        """Nothing may go on here: the executor row is another's, or the database is."""
        self._why_lost = why
        self.is_lost = True
        self._notify()

    def ask_reload(self) -> None:
        """The files are to be taken up anew: what SIGHUP asks, from another thread."""
        self.is_reload = True
        self._notify()

    def wait(self, limit: timedelta | None) -> bool:
        """Wait for a switch or a time; True if the process is to end."""
        seconds = limit.total_seconds() if limit is not None else None
        if not self.is_over():
            ready, _, _ = select.select([self._reader], [], [], seconds)
            if ready:
                os.read(self._reader, 4096)
        return self.is_over()

    def is_over(self) -> bool:
        """Whether the process is to end."""
        return self.is_ended or self.is_lost

    def report(self, running: Callable[[], int]) -> dict[str, Any]:
        """What this process says of itself."""
        reasons = [] if self.is_ready or self.is_ended else [STARTING]
        if self.is_lost:
            reasons.append(self._why_lost)
        return {"draining": self.is_ended, "running": running(), "reasons": reasons}

    def attend(self, reload: Callable[[], None]) -> int:
        """Wait until the process is to end; reload when asked.

        Returns:
            0 for an ordinary end, 75 when the executor row was lost.
        """
        while not self.is_over():
            # Asked for before the first wait perhaps: while the process still began.
            if self.is_reload:
                self.is_reload = False
                reload()
            else:
                self.wait(None)
        return RESTART_ME if self.is_lost else 0

    def _end(self, number: int, _frame: FrameType | None) -> None:
        if self.is_ended:
            # Guards see the end of their pipes and kill every hook.
            os._exit(128 + number)
        self.is_ended = True

    def _hang_up(self, _number: int, _frame: FrameType | None) -> None:
        self.is_reload = True

    def _notify(self) -> None:
        try:
            os.write(self._writer, b"!")
        except BlockingIOError:
            return  # full: whoever waits is told anyway
