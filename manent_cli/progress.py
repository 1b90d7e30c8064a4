"""A waiting deploy, told as it goes: compact on a terminal, append-only elsewhere."""

import time
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from manent_cli.errors import Failure
from manent_cli.noun import detail, message
from manent_cli.pace import Pace
from manent_cli.talk import Talk

Object = Mapping[str, Any]
_ENDS = {"succeeded": "green", "failed": "red", "skipped": "dim"}
_TAIL = 20


class Progress:
    """Tells what changed since the last look, each thing once.

    Args:
        talk: Where it is told.
        pace: The clock, and how long silence may last.
    """

    def __init__(self, talk: Talk, pace: Pace) -> None:
        self._talk = talk
        self._pace = pace
        self._state = ""
        self._steps: dict[str, tuple[Any, ...]] = {}
        self._since: dict[str, float] = {}
        self._tails: dict[str, deque[str]] = {}
        self._last_line = ""
        self._spoke_at = pace.monotonic()

    def say(self, text: str, *, colour: str = "") -> None:
        """Tell something; with the time in front where the lines stay, as in a CI log."""
        self._spoke_at = self._pace.monotonic()
        if not self._talk.is_terminal:
            now = time.gmtime(self._pace.wall())
            text = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', now)} {text}"
        self._talk.say(text, colour=colour)

    def deploy(self, deploy: Object) -> bool:
        """Tell the state, if it changed."""
        state = f"{deploy.get('state')} {detail(deploy)}".strip()
        if state == self._state:
            return False
        self._state = state
        if not self._talk.is_terminal or deploy.get("state") != "PENDING":
            self.say(state)
        return True

    def begin(self, step: Object) -> bool:
        """Tell that a step runs, or runs again."""
        name = str(step.get("step"))
        if self._has_seen(name, step):
            return False
        self._since[name] = self._pace.monotonic()
        self._tails.pop(name, None)
        attempts = step.get("attempts") or 1
        again = f", attempt {attempts}" if attempts > 1 else ""
        if not self._talk.is_terminal:
            self.say(f"step {name} running{again}")
        elif again:
            self.say(f"{name} runs again{again}", colour="yellow")
        return True

    def end(self, step: Object) -> bool:
        """Tell how a step ended; on a terminal the end of its log as well when it failed.

        One that waits after a failure is tried again.
        """
        name, state = str(step.get("step")), str(step.get("state"))
        if self._has_seen(name, step):
            return False
        self._since.pop(name, None)
        why = message(step.get("error"))
        if state == "waiting":
            state = f"failed (attempt {step.get('attempts')}), will be tried again"
        text = f"{name} {state}{_took(step)}" + (f": {why}" if why else "")
        prefix = "" if self._talk.is_terminal else "step "
        self.say(prefix + text, colour=_ENDS.get(state, ""))
        if state == "failed" and self._talk.is_terminal:
            for line in self._tails.get(name, ()):
                self.say(f"    {line}", colour="dim")
        return True

    def log(self, item: Object) -> None:
        """Tell a line of the log; on a terminal only the last one is shown as it comes."""
        name, text = str(item.get("step") or ""), str(item.get("text") or "")
        self._last_line = text
        self._tails.setdefault(name, deque(maxlen=_TAIL)).append(text)
        if not self._talk.is_terminal:
            self.say(f"log {name} | {text}" if name else f"log | {text}")

    def trouble(self, failure: Failure) -> None:
        """Tell why nothing is known at the moment."""
        text = f"{failure.what}: {failure.why or failure.code}; trying again"
        if text != self._last_line or self.is_silent:
            self._last_line = text
            self.say(text, colour="yellow")

    @property
    def is_silent(self) -> bool:
        """Whether nothing was told for so long that somebody may think it hangs."""
        return self._pace.monotonic() - self._spoke_at >= self._pace.heartbeat

    def heartbeat(self, reason: str = "") -> None:
        """Tell that it still goes on, and with what."""
        if self._talk.is_terminal:
            self._talk.status(f"{self._now() or self._state}  {self._last_line}")
        elif self.is_silent:
            self.say(f"still {reason or self._now() or self._state}")

    def _has_seen(self, name: str, step: Object) -> bool:
        look = (step.get("pass"), step.get("state"), step.get("attempts"))
        if self._steps.get(name) == look:
            return True
        self._steps[name] = look
        return False

    def _now(self) -> str:
        now = self._pace.monotonic()
        running = [f"{name} {now - since:.0f}s" for name, since in self._since.items()]
        return "running: " + ", ".join(running) if running else ""


def _took(step: Object) -> str:
    try:
        began, ended = (datetime.fromisoformat(step[name]) for name in ("started_at", "ended_at"))
    except (KeyError, TypeError, ValueError):
        return ""
    return f" ({(ended - began).total_seconds():.1f}s)"
