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
