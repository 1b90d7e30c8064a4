"""Contexts for hooks called in this process, and what the hooks said through them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manent_server.sdk import Context, Log


@dataclass
class Heard:
    """A channel that keeps what a hook says."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    checkpoints: list[Any] = field(default_factory=list)
    is_asked_to_stop: bool = False

    def log(self, level: str, text: str) -> None:
        self.lines.append((level, text))

    def heartbeat(self, *, checkpoint: Any, progress: Any) -> None:
        self.checkpoints.append(checkpoint)

    def is_owner(self) -> bool:
        return True

    def is_cancelled(self) -> bool:
        return self.is_asked_to_stop

    @property
    def text(self) -> str:
        return "\n".join(text for _, text in self.lines)


MakeContext = Callable[..., Context]


def context(workdir: Path, options: Any, heard: Heard | None = None, **values: Any) -> Context:
    heard = heard or Heard()
    workdir.mkdir(parents=True, exist_ok=True)
    given: dict[str, Any] = {
        "deploy": "d-0123456789",
        "kind": "deploy",
        "application": "shop",
        "environment": "staging",
        "target": "web-1",
        "version": "v2",
        "from_version": "v1",
        "artifact": None,
        "configuration": {},
        "secrets": {},
        "previous": None,
        "outputs": {},
        "idempotency_key": "d-0123456789/deploy:web-1/1",
        "attempt": 1,
        "epoch": 7,
        "checkpoint": None,
        "completed": (),
        "folder": Path.cwd(),
        **values,
    }
    return Context(options=options, workdir=workdir, log=Log(heard), channel=heard, **given)
