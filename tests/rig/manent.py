"""`manent` in tests: in this process with a fast pace, or as a process of its own."""

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manent_cli.pace import Pace
from manent_cli.running import run
from tests.rig.fake_api import FakeApi
from tests.rig.fake_http import TOKEN

PROGRAM = Path(sys.executable).parent / "manent"
FAST = Pace(first=0.01, longest=0.05, heartbeat=30.0, settle=0.3, post=1.0)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@dataclass(frozen=True)
class Said:
    """How a run ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error object: the last line of standard error."""
        return json.loads(self.err.splitlines()[-1])


class Manent:
    """The command line with a home of its own, signed in to a fake API.

    Args:
        home: Where its contexts file would be.
        api: The server it talks to; None for none.
    """

    def __init__(self, home: Path, api: FakeApi | None = None) -> None:
        self.environ = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        if api is not None:
            self.environ |= {"MANENT_URL": api.url, "MANENT_TOKEN": TOKEN}

    def __call__(
        self,
        *arguments: str,
        pace: Pace = FAST,
        environ: Mapping[str, str] | None = None,
        is_terminal: bool = False,
        typed: str | None = None,
    ) -> Said:
        """Run a command in this process; with `typed` somebody sits at its terminal."""
        stream = Terminal if is_terminal else io.StringIO
        stdin = None if typed is None else Terminal(typed)
        out, err = stream(), stream()
        given = {**self.environ, **(environ or {})}
        code = run(arguments, environ=given, stdout=out, stderr=err, pace=pace, stdin=stdin)
        return Said(code, out.getvalue(), err.getvalue())

    def process(self, *arguments: str, limit: float = 30.0, **environ: str) -> Said:
        """Run a command as a user does."""
        ended = subprocess.run(
            [str(PROGRAM), *arguments], env={**self.environ, **environ}, text=True,
            capture_output=True, timeout=limit, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return Said(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        """Start a command and leave it running."""
        return subprocess.Popen(
            [str(PROGRAM), *arguments], env={**self.environ, **environ}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        )  # fmt: skip
