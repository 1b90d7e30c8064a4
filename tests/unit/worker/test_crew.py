"""The order in which a worker begins."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from manent_server.recovery.start import Resumed
from manent_server.worker.crew import Crew


class Part:
    """One part of a worker: notes what stood in its folder when it was begun."""

    def __init__(self, name: str, said: list[tuple[str, list[str]]], folder: Path) -> None:
        self._note = lambda: said.append((name, sorted(path.name for path in folder.iterdir())))

    def start(self) -> None:
        self._note()

    def launch(self, **_: Any) -> None:
        self._note()


def test_a_worker_beats_before_it_clears_what_an_earlier_start_left(tmp_path: Path):
    """B25: gigabytes of it take longer than a worker may be silent."""
    for name in ("deploys", "attempts", "idle"):
        (tmp_path / name).mkdir()
    said: list[tuple[str, list[str]]] = []
    parts: dict[str, Any] = {
        name: Part(name, said, tmp_path) for name in ("watch", "heartbeat", "watcher", "runtime")
    }
    shop: Any = SimpleNamespace(runner=Part("runner", said, tmp_path), workdir=tmp_path)
    start: Any = SimpleNamespace(take=lambda _: Resumed((), ()))
    crew = Crew(shop=shop, start=start, drain_timeout=timedelta(0), **parts)
    crew.begin(lambda _: False)
    everything = ["attempts", "deploys", "idle"]
    assert said[:2] == [("runner", everything), ("heartbeat", everything)]
    assert said[2:] == [(name, ["idle"]) for name in ("watch", "runtime", "watcher")]


class Early:
    """An engine whose clock was set forward: it waits for nobody."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.left = timedelta(0)

    def destroy(self, *, limit: timedelta) -> None:
        self.said.append("destroyed")

    def wait_idle(self, limit: timedelta) -> bool:
        self.said.append("awaited")
        self.left = limit
        return True


def test_a_drain_lasts_as_long_as_it_may_whatever_the_time_of_day():
    """B30, I17"""
    engine: Any = Early()
    nothing: Any = SimpleNamespace()
    parts = dict.fromkeys(("shop", "watch", "start", "heartbeat", "watcher"), nothing)
    Crew(**parts, runtime=engine, drain_timeout=timedelta(minutes=2))._await_end()
    assert engine.said == ["destroyed", "awaited"]
    assert timedelta(minutes=2) < engine.left <= timedelta(minutes=2, seconds=5)
