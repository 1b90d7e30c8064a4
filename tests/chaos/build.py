"""Hand-made histories: one good deploy after another, to be spoilt by a test."""

from dataclasses import replace
from typing import Any

from tests.chaos.history import Call, Change, Fault, History, Line, Mark

PLACE = {"environment": "prod", "application": "ant"}


class Story:
    """Writes a history as a real run would have left it."""

    def __init__(self) -> None:
        self.history = History(settings={"concurrency": {"prod": 1}, "max_parallel": {"ant": 1}})
        self._number = 0
        self._epoch = 0

    def row(self, table: str, at: float, *, is_deletion: bool = False, **row: Any) -> None:
        """A change of a row."""
        self._number += 1
        self.history.changes.append(Change(self._number, at, table, is_deletion, row))

    def deploy_row(self, deploy: str, at: float, state: str, **more: Any) -> None:
        """A change of a deploy's row."""
        row = {
            "id": deploy, "state": state, "phase": None, "outcome": None, "epoch": self._epoch,
            "executor": "w1", "incarnation": "i1", "priority": 100, "ticket": self._number,
            "cancel_requested_at": None, "pass_number": 1, "blocked": None, "ended_at": None,
            "version": "1.100.ok", "kind": "deploy", **PLACE,
        }  # fmt: skip
        self.row("deploys", at, **(row | more))

    def attempt_row(self, deploy: str, at: float, hook: str, **more: Any) -> None:
        """An attempt as it is handed out or ends."""
        number = more.get("attempt", 1)
        row = {
            "id": f"{deploy}-{hook}-{number}", "deploy": deploy, "pass_number": 1,
            "step": f"{hook}:a", "attempt": number, "epoch": self._epoch, "hook": hook,
            "ended_at": None, "result": None, **PLACE,
        }  # fmt: skip
        self.row("attempts", at, **(row | more))

    def step_row(self, deploy: str, at: float, hook: str, state: str) -> None:
        """A step as it is written, begins or ends."""
        began = None if state == "waiting" else at
        ended = at if state in ("succeeded", "failed") else None
        self.row(
            "steps", at, deploy=deploy, pass_number=1, name=f"{hook}:a", hook=hook, target="a",
            state=state, started_at=began, ended_at=ended,
        )  # fmt: skip

    def mark(self, event: str, at: float, deploy: str, hook: str, **more: Any) -> None:
        """A line of the ledger."""
        number = more.get("attempt", 1)
        first = Mark(
            event, at, f"{deploy}-{hook}-{number}-{self._epoch}", deploy, "ant", "prod", "a",
            hook, "1.100.ok", number, self._epoch, "w1", 1, 1,
        )  # fmt: skip
        self.history.ledger.append(replace(first, **more))

    def take(self, deploy: str, at: float) -> None:
        """Accepted, given its place, taken by a worker under a new epoch."""
        self.ask(deploy, at)
        self.deploy_row(deploy, at, "ENQUEUED")
        self.row("slots", at, deploy=deploy, **PLACE)
        self.epoch()
        self.deploy_row(deploy, at, "PENDING")
        for hook in ("deploy", "verify"):
            self.step_row(deploy, at, hook, "waiting")

    def epoch(self) -> int:
        """The next one."""
        self._epoch += 1
        return self._epoch

    def ask(self, deploy: str, at: float, **more: Any) -> None:
        """The request for it."""
        call = Call(
            self._number, "ant", "deploy", at, at, 202,
            key=deploy, nonce=deploy, answer={"id": deploy, "state": "ENQUEUED"},
        )  # fmt: skip
        self.history.calls.append(replace(call, **more))

    def hook(self, deploy: str, at: float, hook: str) -> None:
        """One hook from its hand-out to its good end, two seconds later."""
        self.attempt_row(deploy, at, hook)
        self.mark("start", at, deploy, hook)
        for number in range(2):
            self.mark("tick", at + 0.5 + number, deploy, hook)
        self.mark("end", at + 2, deploy, hook, exit=0, lines=2)
        self.attempt_row(deploy, at + 2.1, hook, ended_at=at + 2.1, result="succeeded")
        self.step_row(deploy, at + 2.1, hook, "succeeded")

    def close(self, deploy: str, at: float, state: str = "SUCCESS", **more: Any) -> None:
        """The end, its log and what is in place then."""
        outcome = more.pop("outcome", "deployed")
        self.deploy_row(deploy, at, state, outcome=outcome, ended_at=at, **more)
        self.row("slots", at, is_deletion=True, deploy=deploy, **PLACE)
        self.history.deploys.append({
            "id": deploy, "state": state, "phase": None, "outcome": outcome, "reason": deploy,
            "kind": "deploy", "targets": ["a"], **PLACE,
        })  # fmt: skip
        if state == "SUCCESS":
            self.history.inventory = [
                {"target": "a", "version": "1.100.ok", "state": "known", **PLACE}
            ]

    def log(self, deploy: str) -> None:
        """What its two hooks have said."""
        words = [(hook, number) for hook in ("deploy", "verify") for number in range(2)]
        for sequence, (hook, number) in enumerate(words, start=1):
            text = f"line {number} of attempt 1 ***"
            self.history.lines.append(
                Line(deploy, sequence, f"{hook}:a", 1, "out", text, is_final=True)
            )

    def whole(self, deploy: str, at: float) -> None:
        """One deploy in which all is well."""
        self.take(deploy, at)
        self.hook(deploy, at + 1, "deploy")
        self.hook(deploy, at + 4, "verify")
        self.log(deploy)
        self.close(deploy, at + 7)


def good() -> Story:
    """Two deploys, one after the other, of which nothing can be said."""
    story = Story()
    for number, deploy in enumerate(("one", "two")):
        story.whole(deploy, 10.0 * number)
    lease = {"name": "wake", "holder": "w1", "token": 1}
    story.row("leases", 1.0, **lease)
    story.row("leases", 9.0, name="wake", holder="w2", token=2, old_holder="w1", old_token=1,
              old_until=8.0)  # fmt: skip
    story.row("executors", 0.5, id="w1", incarnation="i1")
    story.history.faults.append(Fault("term", 30.0, "w1"))
    story.history.settings["calm_ends"] = {"one": "well", "two": "well"}
    return story
