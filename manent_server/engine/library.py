"""How the tables of DBOS come to be: by a child process that launches it once.

DBOS migrates only while it launches (its `migrate` command cannot leave LISTEN/NOTIFY out),
and a launch leaves threads and global state behind that a process without a worker must not
have. The child reads the address from its standard input, where no other user sees it.
"""

import contextlib
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import IO, Final

from manent_server.domain.errors import StartRefused, Unavailable
from manent_server.store.engine import Engines
from manent_server.store.migrate import Library
from manent_server.store.repeat import NotAnswered

TRY_AGAIN: Final = 75
_CHILD: Final = "manent_server.engine.migration"
_LOOK: Final = 0.1
_LAST_WORDS: Final = 2000


def library() -> Library:
    """What `store.migrate` needs to know about DBOS."""
    return Library(version=importlib.metadata.version("dbos"), migrate=_migrate)


def _migrate(engines: Engines, stop: Callable[[], bool]) -> None:
    order = {"url": engines.dbos.url.render_as_string(hide_password=False)}
    with tempfile.TemporaryFile() as said:
        # -P: nothing in the current folder may stand in for a module.
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        with child:
            try:
                _follow(child, json.dumps(order), stop)
            finally:
                child.kill()
        _judge(child.returncode, said)


def _follow(child: subprocess.Popen[bytes], order: str, stop: Callable[[], bool]) -> None:
    """Wait for the child; its input stays open, since its end tells it that we are gone."""
    if child.stdin is None:
        raise RuntimeError("the child has no input")
    with contextlib.suppress(BrokenPipeError):  # it died at once: its exit says why
        child.stdin.write(f"{order}\n".encode())
        child.stdin.flush()
    while True:
        try:
            child.wait(_LOOK)
        except subprocess.TimeoutExpired:
            if stop():
                raise Unavailable("stopped while migrating", next="Start again.") from None
        else:
            return


def _judge(code: int, said: IO[bytes]) -> None:
    if code == 0:
        return
    said.seek(0)
    words = said.read().decode(errors="replace")[-_LAST_WORDS:].strip()
    if code == TRY_AGAIN:
        raise NotAnswered(words)
    raise StartRefused(
        f"the tables of the execution library could not be made: {words or f'exit {code}'}",
        next="The database role needs CREATE on the database; see the message.",
    )
