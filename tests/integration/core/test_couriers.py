"""One loop for each sink that is configured, under a lease of its own."""

from dataclasses import replace
from datetime import datetime, timedelta

from manent_server.settings import Settings
from manent_server.store.notices import Notice
from manent_server.usecases.deliver import Receipt
from manent_server.worker.couriers import Couriers
from tests.integration.core.test_notices import HOOK, Receiver, states, tell
from tests.rig.core import Core
from tests.rig.process import until


class Hanging(Receiver):
    """Answers nothing until the test has ended."""

    def carry(self, notice: Notice, *, at: datetime) -> Receipt:
        super().carry(notice, at=at)
        until(lambda: self.answers, what="the end of the test", limit=30)
        return Receipt(200)


def test_sinks_are_served_as_they_are_configured(core: Core):
    """B153: one that hangs keeps neither another sink waiting nor the end of the process."""
    hanging, good = Hanging(), Receiver()
    known = {"hanging": hanging, "good": good}
    core.configure(notify={"hanging": HOOK, "good": HOOK})
    couriers = Couriers(core.desk, "a", known.get, lasts=timedelta(seconds=30))
    couriers.start()
    try:
        tell(core, "lock.set", "lock.lifted")
        until(lambda: len(good.heard) == 2 and hanging.heard, what="both told")
        assert {row["name"] for row in core.rows("leases")} >= {"outbox:good", "outbox:hanging"}

        core.configure(notify={"hanging": HOOK})
        until(lambda: "good" not in couriers._loops, what="the sink gone")
    finally:
        couriers.stop()
        began = core.at()
        couriers.join()
        assert core.at() - began < timedelta(seconds=5)
        hanging.answers.append(Receipt(200))
    until(lambda: states(core, "hanging")[0] == "delivered", what="its try written down")
    assert states(core, "hanging") == ["delivered", "waiting"]


def test_a_look_that_fails_ends_no_sink(core: Core):
    """The settings of one moment may be unusable; those of the next are served."""
    good, failures = Receiver(), [RuntimeError("half read")]

    def settings() -> Settings:
        if failures:
            raise failures.pop()
        return core.settings

    core.configure(notify={"good": HOOK})
    desk = replace(core.desk, settings=settings)
    couriers = Couriers(desk, "a", {"good": good}.get, lasts=timedelta(seconds=30))
    couriers.start()
    try:
        tell(core, "lock.set")
        until(lambda: good.heard, what="told")
    finally:
        couriers.stop()
        couriers.join()
    assert failures == []
