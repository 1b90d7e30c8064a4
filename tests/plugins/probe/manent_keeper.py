"""A small target that keeps the rules, or breaks the one that its options name."""

import os
import time
from pathlib import Path
from typing import Any

from manent_server.sdk import Context, Observation, Options, hookimpl


class KeeperOptions(Options):
    """Where the version is kept, and which rule is broken."""

    file: str
    breaks: str = ""


@hookimpl
def options() -> type[Options]:
    """The model."""
    return KeeperOptions


@hookimpl
def deploy(context: Context) -> dict[str, Any]:
    """Write the version."""
    file = Path(context.options.file)
    context.log.info("writing")
    if context.attempt == 1 and context.idempotency_key == "again":
        if context.options.breaks == "crash":
            file.with_suffix(".lock").touch()
        time.sleep(30)
    if file.with_suffix(".lock").exists():
        raise RuntimeError("somebody else is at it")
    fresh = file.with_suffix(f".{os.getpid()}")
    again = context.options.breaks == "twice" and file.exists()
    fresh.write_text(context.version * (2 if again else 1))
    fresh.replace(file)
    context.heartbeat(checkpoint="written")
    return {"bytes": len(context.version)}


@hookimpl
def observe(context: Context) -> Observation:
    """Read the version."""
    found = Path(context.options.file).read_text()
    wrong = context.options.breaks == "observe"
    return Observation(found, found == context.version and not wrong)


@hookimpl
def verify(context: Context) -> bool:
    """Whether it is healthy."""
    return context.options.breaks != "verify"
