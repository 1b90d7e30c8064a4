"""People who approve: each says a word, drawn before the run began, to what waits for people."""

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.asking import Asker, Wish
from tests.chaos.history import Call, History
from tests.chaos.record import Recorder, now

PEOPLE = ("bob", "eve", "joe")
# What an instant's fault is about lasts until its victim is back.
_AFTERMATH = 6.0
_PAGE = 20
_AGAIN, _OTHERWISE = 0.25, 0.25
_OPPOSITE = {"approve": "reject", "reject": "approve"}


def words(seed: int, nonce: str) -> dict[str, str]:
    """What people say to what a request asks: one rejects it and one agrees, or all agree.

    So two of three never agree to what somebody rejects, and its end does not hang on who is first.
    """
    draw = _drawn(seed, nonce)
    first, second, _ = draw.sample(PEOPLE, 3)
    if draw.random() < 0.2:
        return {first: "reject", second: "approve"}
    return dict.fromkeys(PEOPLE, "approve")


def is_rejected(seed: int, nonce: str) -> bool:
    """Whether somebody says no to it."""
    return "reject" in words(seed, nonce).values()


def _drawn(*of: object) -> random.Random:
    return random.Random(" ".join(map(str, ("people", *of))))  # noqa: S311 - to be repeated


@dataclass
class Person(threading.Thread):
    """Looks at what waits and decides until told to stop; some think better of it, in vain."""

    who: str
    url: str
    token: str
    seed: int
    environment: str
    recorder: Recorder
    stop: threading.Event
    crash: BaseException | None = None
    _said: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__(name=f"person {self.who}", daemon=True)
        self._asker = Asker(self.who, self.url, self.token, recorder=self.recorder, stop=self.stop)
        self._draw = _drawn(self.seed, self.who)

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        """Look and decide, in turn."""
        try:
            while not self.stop.wait(self._draw.uniform(0.3, 0.9)):
                for item in self._look():
                    self._decide(item)
        except BaseException as error:  # noqa: BLE001 - handed to the controller
            self.crash = error
        finally:
            self._asker.close()

    def _look(self) -> list[dict[str, Any]]:
        """What waits for a word of mine; what was seen is recorded."""
        sent = now()
        page = self._asker.get("/approvals", environment=self.environment, limit=_PAGE)
        if page is None:
            return []
        note(self.recorder, self.who, page["items"], sent)
        return [
            item
            for item in page["items"]
            if item["state"] == "waiting" and item["id"] not in self._said
        ]

    def _decide(self, item: Mapping[str, Any]) -> None:
        word = words(self.seed, item["reason"]).get(self.who)
        if word is None:
            self._said.add(item["id"])
            return
        call = self._say(item, word, "word")
        if call.is_good or call.status == 409:
            self._said.add(item["id"])
        elif call.status is not None and call.status < 500:
            raise AssertionError(f"{self.who} may not {word} {item['id']}: {call}")
        if not call.is_good:
            return
        then = _drawn(self.seed, item["reason"], self.who).random()
        if then < _AGAIN:
            self._say(item, word, "word")
        elif then < _AGAIN + _OTHERWISE:
            self._say(item, _OPPOSITE[word], "other word")

    def _say(self, item: Mapping[str, Any], decision: str, key: str) -> Call:
        body = {"decision": decision, "comment": item["reason"]}
        about = {"approval": item["id"], "by": self.who, "decision": decision}
        path, name = f"/approvals/{item['id']}/decisions", f"{self.who} {item['id']} {key}"
        return self._asker.send(Wish("decide", path, body, name, about=about))


def note(recorder: Recorder, who: str, items: list[dict[str, Any]], sent: float) -> None:
    """Record what somebody read: who has said what to each of these."""
    shown = {item["id"]: {vote["by"]: vote["decision"] for vote in item["votes"]} for item in items}
    call = Call(
        recorder.number(), who, "approvals", sent, now(), 200, answer={"shown": shown}
    )  # fmt: skip
    recorder.call(call)


def decisions(history: History, word: str | None = None) -> set[tuple[str, str]]:
    """Which approval was decided by whom (with this word), as far as it was answered."""
    return {
        (call.about["approval"], call.about["by"])
        for call in list(history.calls)
        if call.what == "decide" and call.is_good and word in (None, call.about["decision"])
    }


def amid_faults(history: History) -> int:
    """How many of them were asked for while a fault was in force, or in its aftermath."""
    spans = [(fault.at, (fault.until or fault.at) + _AFTERMATH) for fault in history.faults]
    first: dict[str, float] = {}
    found = set()
    for call in history.calls:
        if call.what != "decide":
            continue
        sent = first.setdefault(call.key or "", call.sent)
        if call.is_good and any(at < call.answered and sent < until for at, until in spans):
            found.add((call.about["approval"], call.about["by"]))
    return len(found)


def hire(tokens: Mapping[str, str], **more: Any) -> list[Person]:
    """A person for each token."""
    return [Person(who, token=token, **more) for who, token in tokens.items()]
