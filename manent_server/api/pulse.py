"""Whether the database answers, judged over time: one late or lost answer is no outage.

A platform takes a process that is not ready out of service, all of them at the same moment when
they share a database. So a short interruption and a database that is slow are said in the reasons
and nothing more; what lasts is an outage, and the first answer ends it.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from manent_server.domain.errors import ManentError

_log = logging.getLogger(__name__)
AT_ONCE: Final = 3
"""Questions under way at once: one may be lost with its connection while others are answered."""

Check = Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Limits:
    """How long, in seconds.

    Attributes:
        waits: Whoever asks waits for an answer.
        failing: What fails for as long is an outage.
        pending: So is a question that has no answer for as long, where none has failed.
        another: A question is asked beside one that is under way for as long.
    """

    waits: float = 1.0
    failing: float = 5.0
    pending: float = 15.0
    another: float = 2.0


@dataclass(frozen=True)
class Verdict:
    """What is known.

    Attributes:
        found: What the check said; None where it has not answered, or failed.
        words: What is wrong.
        is_outage: Whether it has been wrong for too long.
    """

    found: dict[str, Any] | None
    words: str = ""
    is_outage: bool = False


@dataclass(eq=False)
class _Question:
    """One run of the check."""

    began: float
    done: threading.Event = field(default_factory=threading.Event)
    found: dict[str, Any] | None = None
    words: str = ""


class Pulse:
    """Asks, and remembers since when there was no answer."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        self._open: list[_Question] = []
        self._failing_since: float | None = None
        self._answered = float("-inf")

    def ask(self, check: Check) -> Verdict:
        """Ask now, wait a moment, and judge; may be called by any thread."""
        question = self._begin(check)
        question.done.wait(self._limits.waits)
        with self._lock:
            if question.found is not None:
                return Verdict(question.found)
            return self._judge(question)

    def _begin(self, check: Check) -> _Question:
        with self._lock:
            now = time.monotonic()
            newest = self._open[-1] if self._open else None
            is_young = newest is not None and now - newest.began < self._limits.another
            if newest is not None and (is_young or len(self._open) >= AT_ONCE):
                return newest
            question = _Question(now)
            self._open.append(question)
        name = "readiness"
        threading.Thread(target=self._run, args=(question, check), name=name, daemon=True).start()
        return question

    def _run(self, question: _Question, check: Check) -> None:
        found, words = None, ""
        try:
            found = check()
        except ManentError as error:
            words = error.detail
        except Exception:  # noqa: BLE001 - whatever it is, whoever asks is told
            _log.exception("the question whether this process is ready failed")
            words = "it cannot be told whether the database answers"
        with self._lock:
            self._open.remove(question)
            question.found, question.words = found, words
            self._note(question)
        question.done.set()

    def _note(self, question: _Question) -> None:
        """An answer ends what was wrong before it came.

        A failure counts from when it was seen: where answers are late, making a connection takes
        longer than is waited for, and those there are go on answering.
        """
        now = time.monotonic()
        if question.found is not None:
            self._answered, self._failing_since = now, None
        elif self._failing_since is None and question.began > self._answered:
            self._failing_since = now

    def _judge(self, question: _Question) -> Verdict:
        now = time.monotonic()
        waits = [one.began for one in self._open if one.began > self._answered]
        is_late = any(now - began >= self._limits.pending for began in waits)
        since = self._failing_since
        is_failing = since is not None and now - since >= self._limits.failing
        words = question.words or f"the database has not answered for {now - question.began:.0f} s"
        return Verdict(None, words, is_outage=is_late or is_failing)
