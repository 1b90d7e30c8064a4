"""SIGTERM where nobody has yet said what it means.

The kernel drops a signal that the first process of a container has no handler for: a stop that came
while libraries are loaded would be lost, and the platform would kill the process minutes later.
"""

import os
import signal
from types import FrameType

_FIRST = 1


def obey() -> None:
    """Give SIGTERM the meaning it has in every other process, until a command has its own."""
    if os.getpid() == _FIRST:
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


class Told:
    """Whether somebody wants the process to end; a second signal ends it at once."""

    def __init__(self) -> None:
        self._is_told = False
        signal.signal(signal.SIGTERM, self._hear)

    def __call__(self) -> bool:
        """True once SIGTERM has come."""
        return self._is_told

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._is_told:
            _end(number, frame)
        self._is_told = True
