"""Standard error: everything a command says beside its data."""

import json
from collections.abc import Mapping
from typing import TextIO

from manent_cli.errors import Failure
from manent_cli.text import clean, cut


class Talk:
    """What a command says to a person or to the log of a CI job.

    Args:
        stream: Standard error.
        environ: `NO_COLOR`, `TERM` and `COLUMNS` are read.
    """

    def __init__(self, stream: TextIO, environ: Mapping[str, str]) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty() and environ.get("TERM") != "dumb"
        self._is_coloured = self.is_terminal and not environ.get("NO_COLOR")
        self._columns = _columns(environ)
        self._has_status = False

    def say(self, text: str, *, colour: str = "") -> None:
        """Say one line.

        Args:
            text: The line.
            colour: `red`, `green`, `yellow` or `dim`, on a terminal that wants it.
        """
        self._wipe()
        self._write(self._painted(clean(text), colour) + "\n")

    def status(self, text: str) -> None:
        """Replace the last line of a terminal; elsewhere say nothing."""
        if self.is_terminal:
            self._wipe()
            self._write(self._painted(cut(clean(text), self._columns - 1), "dim"))
            self._has_status = True

    def failure(self, failure: Failure, *, is_structured: bool) -> None:
        """Say what failed, why, and what to do; as one JSON object for a program."""
        self._wipe()
        if is_structured:
            self._write(json.dumps(failure.body()) + "\n")
            return
        self.say(f"error: {failure.what}", colour="red")
        if failure.why:
            self.say(f"  why: {failure.why}")
        if failure.next:
            self.say(f"  next: {failure.next}")
        if failure.request_id:
            self.say(f"  request: {failure.request_id}", colour="dim")

    def _wipe(self) -> None:
        if self._has_status:
            self._has_status = False
            self._write("\r\x1b[K")

    def _painted(self, text: str, colour: str) -> str:
        code = {"red": "31", "green": "32", "yellow": "33", "dim": "2"}.get(colour)
        return f"\x1b[{code}m{text}\x1b[0m" if code and self._is_coloured else text

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            return  # nobody listens; the work and the exit code matter more


def _columns(environ: Mapping[str, str]) -> int:
    from shutil import get_terminal_size  # noqa: PLC0415 - start time

    given = environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and int(given) else get_terminal_size().columns
