"""A worker in this process: the real rooms of a run, and hooks that are played."""

import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from manent_server.engine.control import Watch
from manent_server.engine.identity import Identity
from manent_server.engine.journey import Journey
from manent_server.engine.shop import Caps, Lifeline, Shop
from manent_server.observability.metrics import Metrics
from manent_server.observability.redaction import Redactor
from manent_server.recovery.start import Offer, Start
from manent_server.sources.artifacts import Artifacts
from manent_server.sources.secrets import Secrets
from manent_server.store import logs
from tests.rig.core import STALE_AFTER, Core, long_ago
from tests.rig.fake_runner import FakeRunner

CAPS = Caps(line=1000, deploy=100_000, tail=10_000, kill_grace=timedelta(seconds=1))

WAVES = (("a", "b"), ("c",))


@dataclass
class Trip:
    """One dispatch that runs in a thread; `ended_by` is what it left with, if with anything."""

    thread: threading.Thread
    ended_by: list[type[BaseException]]

    def join(self) -> type[BaseException] | None:
        """Wait for its end."""
        self.thread.join(30)
        assert not self.thread.is_alive(), "the dispatch goes on"
        return self.ended_by[0] if self.ended_by else None


class Hand:
    """One start of a worker; further keywords are what its shop has instead of the usual."""

    def __init__(self, core: Core, folder: Path, identity: Identity, **shop: Any) -> None:
        self.core = core
        self.identity = identity
        self.runner = FakeRunner()
        self.lifeline = Lifeline()
        self.redactor = Redactor()
        self.watch = Watch(core.store, self.runner, identity)
        usual: dict[str, Any] = {
            "store": core.store,
            "identity": identity,
            "dispatcher": core.dispatcher,
            "host": core.desk.host,
            "runner": self.runner,
            "artifacts": Artifacts(folder / "artifacts"),
            "secrets": Secrets({"TOKEN": "s3cr3t-value"}, folder),
            "redactor": self.redactor,
            "metrics": Metrics(),
            "caps": CAPS,
            "workdir": folder / "work",
            "admit": core.admission,
            "lifeline": self.lifeline,
            "max_recoveries": 3,
        }
        self.shop = Shop(**(usual | shop))
        self._folder = folder
        self._journey = Journey(self.shop, self.watch)

    def run(self, deploy: str) -> type[BaseException] | None:
        """Run the current dispatch to its end, as the engine would."""
        return self.begin(deploy).join()

    def begin(self, deploy: str) -> Trip:
        """Run the current dispatch in a thread."""
        number = self.core.deploy(deploy).dispatch
        ended_by: list[type[BaseException]] = []

        def go() -> None:
            try:
                self._journey(deploy, number)
            except BaseException as error:  # noqa: BLE001 - shown to the test
                ended_by.append(type(error))

        thread = threading.Thread(target=go, daemon=True)
        thread.start()
        return Trip(thread, ended_by)

    def cut(self) -> None:
        """The drain's time is over."""
        self.lifeline.draining.set()
        self.lifeline.cut.set()
        for control in self.watch.controls():
            control.interrupt(self.runner, grace=timedelta(0))

    def crash(self) -> None:
        """The process dies, its hooks with it."""
        self.runner.crash()

    def restart(self) -> "Hand":
        """The next start of the same worker, once this one counts as lost."""
        self.core.set_worker(self.identity.executor, heartbeat_at=long_ago())
        identity = Identity(
            self.identity.executor,
            self.identity.incarnation + "+",
            self.identity.hostname,
            self.identity.boot,
            self.identity.pid_namespace,
        )
        offer = Offer(["default"], ["fake"], "c", STALE_AFTER)
        Start(self.core.store, self.core.dispatcher, identity, offer).take(lambda _: False)
        return Hand(self.core, self._folder, identity)

    def beside(self, executor: str = "w2") -> "Hand":
        """Another worker."""
        identity = self.core.worker(executor)
        return Hand(self.core, self._folder, identity, lease=self.shop.lease)


def assert_steps_were_kept(core: Core, deploy: str) -> None:
    """I3: a finished step is never begun again in its pass."""
    steps = core.steps(deploy)
    # An observation asks about its step and does none of its work.
    attempts = [a for a in core.attempts(deploy) if a.hook != "observe"]
    succeeded = [(a.pass_number, a.step) for a in attempts if a.result == "succeeded"]
    assert len(succeeded) == len(set(succeeded))
    for attempt in core.attempts(deploy):
        ended_at = steps[attempt.step].ended_at
        assert ended_at is None or attempt.handed_out_at <= ended_at, attempt


def place(core: Core, waves: tuple[tuple[str, ...], ...] = WAVES, **changes: Any) -> None:
    targets: dict[str, Any] = {target: {} for wave in waves for target in wave}
    more = {"max_parallel": 2, "targets": targets} | changes
    core.change_placement("shop", "staging", waves=waves, **more)


def inventory(core: Core) -> dict[str, tuple[str, str | None]]:
    return {row["target"]: (row["state"], row["version"]) for row in core.rows("inventory")}


def log(core: Core, deploy: str) -> list[str]:
    with core.store.read() as tx:
        return [line.text for line in logs.read(tx, deploy, after=0, limit=999, size=10**6)]


def ended(core: Core, deploy: str) -> tuple[str, str | None]:
    row = core.deploy(deploy)
    assert_steps_were_kept(core, deploy)
    return row.state, row.outcome


def good_before(core: Core, hand: Hand, version: str = "0") -> None:
    """A good deploy to go back to."""
    assert hand.run(core.submit(version=version)) is None
    hand.runner.ran.clear()
