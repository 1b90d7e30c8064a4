"""Dies at the n-th database statement of a deploy: SIGKILL before it is sent.

A process with this installed counts from the moment its file exists, which holds n; a COMMIT
counts as a statement. What heartbeat, loops and the engine's own threads ask is not counted,
so that the same n is about the same place.
"""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

_OTHERS = ("loop ", "heartbeat", "watch", "AnyIO", "asyncio", "MainThread", "metrics")


class Countdown:
    """Counts statements of the deploy's threads."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._counted = 0
        self._trace = file.with_suffix(".trace")

    def statement(self, *words: Any) -> None:
        """One more is about to be sent."""
        self._count(str(words[2])[:200] if len(words) > 2 else "COMMIT")

    def _count(self, words: str) -> None:
        name = threading.current_thread().name
        if name.startswith(_OTHERS) or not self._file.exists():
            return
        with self._lock:
            self._counted += 1
            with self._trace.open("a") as trace:
                trace.write(f"{self._counted} {name}: {' '.join(words.split())[:120]}\n")
            if self._counted == int(self._file.read_text()):
                os.kill(os.getpid(), signal.SIGKILL)


def install(file: Path) -> None:
    """Listen to every engine of this process."""
    countdown = Countdown(file)
    sa.event.listen(Engine, "before_cursor_execute", countdown.statement)
    sa.event.listen(Engine, "commit", countdown.statement)
