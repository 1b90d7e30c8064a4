"""The record is handed on in order, at least once, whatever a receiver does."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from manent_server.domain.audit import Entry
from manent_server.settings.values import Audit, AuditSink
from manent_server.store import audit_positions as positions
from manent_server.store import records
from manent_server.store.records import Deed
from manent_server.usecases import chain, health, receivers, sinks
from manent_server.usecases.hand_on import HandOn
from tests.rig.core import Core


class Fake:
    """Takes what it is given, until it is told to fail; confirms what it is told to."""

    def __init__(self) -> None:
        self.got: list[int] = []
        self.error: OSError | None = None
        self.holds_back = False
        self.closed = 0

    def give(self, entries: Sequence[Entry]) -> None:
        if self.error is not None:
            raise self.error
        self.got += [entry.number for entry in entries]

    def confirmed(self) -> int:
        if self.error is not None:
            raise self.error
        return 0 if self.holds_back else self.got[-1]

    def close(self) -> None:
        self.closed += 1


class Clock:
    at = 0.0

    def __call__(self) -> float:
        return self.at


def write(core: Core, count: int) -> None:
    with core.store.write() as tx:
        records.write_audits(tx, [Deed("ann", "lock.set")] * count, at=tx.now())
    chain.chain(core.desk)


def head(core: Core) -> int:
    return max(int(row["number"]) for row in core.rows("audit_chain"))


def position(core: Core, name: str = "siem") -> positions.Position:
    with core.store.read() as tx:
        return positions.read(tx, name)


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_all_of_it_goes_in_order_and_once_while_nothing_fails(core: Core, fake: Fake):
    hand_on = HandOn(core.desk, "siem", fake)
    write(core, 700)
    assert not hand_on.has_all_to(head(core)), "nobody has looked yet"
    hand_on.round()
    assert hand_on.has_all_to(head(core))
    write(core, 2)
    assert not hand_on.has_all_to(head(core))
    hand_on.round()
    hand_on.round()
    assert fake.got == list(range(1, head(core) + 1))
    assert position(core).number == head(core)


def test_what_was_not_confirmed_is_given_again_after_a_restart(core: Core, fake: Fake):
    write(core, 3)
    fake.holds_back = True
    hand_on = HandOn(core.desk, "siem", fake)
    hand_on.round()
    assert position(core).number == 0
    assert not any(hand_on.has_all_to(number) for number in (0, head(core))), "it has to confirm"
    HandOn(core.desk, "siem", fake).round()
    assert fake.got == [*range(1, head(core) + 1)] * 2


def test_a_dead_receiver_is_tried_now_and_then_and_missed_nothing(
    core: Core, fake: Fake, clock: Clock
):
    write(core, 3)
    fake.error = ConnectionRefusedError("nobody listens")
    hand_on = HandOn(core.desk, "siem", fake, clock=clock)
    hand_on.round()
    found = position(core)
    assert (found.number, found.error) == (0, "nobody listens")
    assert found.failing_since is not None
    hand_on.round()
    assert fake.closed == 1
    clock.at = 1.5
    hand_on.round()
    assert fake.closed == 2
    assert position(core).failing_since == found.failing_since
    fake.error, clock.at = None, 100.0
    hand_on.round()
    assert fake.got == list(range(1, head(core) + 1))
    assert (position(core).error, position(core).failing_since) == (None, None)


def test_another_process_goes_on_where_this_one_was(core: Core, fake: Fake):
    write(core, 2)
    first, second = HandOn(core.desk, "siem", fake), HandOn(core.desk, "siem", fake)
    first.round()
    write(core, 1)
    second.round()
    write(core, 1)
    first.round()
    assert fake.got == list(range(1, head(core) + 1))


def test_a_dead_receiver_shows_and_keeps_nobody_from_being_ready(core: Core, fake: Fake):
    sink = AuditSink("cef", "tls://siem.example:6514", None, None, None)
    core.settings = replace(
        core.settings, audit=Audit(Path("audit.jsonl"), 10**6, None, (), {"siem": sink})
    )
    write(core, 3)
    fake.error = ConnectionRefusedError("nobody listens")
    HandOn(core.desk, "siem", fake).round()
    HandOn(core.desk, "file", Fake()).round()

    ready = health.ready(core.desk)
    assert ready["ready"] is True
    [said] = [reason for reason in ready["reasons"] if "siem" in reason]
    assert "nobody listens" in said
    assert f"{head(core)} wait" in said
    shown = {one["name"]: one for one in sinks.shown(core.desk)["items"]}
    assert shown["siem"]["plugin"] == "audit/cef"
    assert (shown["siem"]["waiting"], shown["siem"]["off_reason"]) == (
        head(core),
        "nobody listens",
    )
    assert (shown["file"]["plugin"], shown["file"]["waiting"]) == ("audit/jsonl", 0)
    counted = {one.sink: one for one in receivers.metrics(core.desk)}
    assert (counted["siem"].is_failing, counted["file"].is_failing) == (True, False)
    assert counted["siem"].waiting == head(core)
    assert receivers.unchained(core.desk) == 0.0
