"""Running one program: its output on to the log, its checkpoints on to the worker."""

import errno
import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from manent_server.sdk import HookFailure, PermanentFailure

_CHUNK = 65536
_LEFT_AT_END = 1024 * 1024
_LINE_LIMIT = 128 * 1024
_STDOUT = 1


@dataclass(frozen=True)
class Program:
    """What is to be run.

    Attributes:
        arguments: The program as it was written, and its arguments.
        folder: Where a relative path of a program begins.
        workdir: Its current directory.
        environment: All of its variables.
        is_captured: Its output is the caller's, not the log's.
    """

    arguments: Sequence[str]
    folder: Path
    workdir: Path
    environment: Mapping[str, str]
    is_captured: bool = False

    @property
    def path(self) -> str:
        """What is executed: a bare name is looked up in PATH, a path from `folder`."""
        written = self.arguments[0]
        return str(self.folder / written) if "/" in written else written


@dataclass
class Output:
    """The end of what a program printed, or all of it up to `limit`."""

    limit: int = 65536
    content: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        """Take up a chunk, forgetting what is further than `limit` from the end."""
        self.content += chunk
        del self.content[: -self.limit]

    @property
    def text(self) -> str:
        """What is kept, decoded leniently."""
        return self.content.decode("utf-8", "replace")

    @property
    def last_line(self) -> str:
        """The last line that is not empty."""
        return self.text.rstrip().rpartition("\n")[2].strip()


@dataclass(frozen=True)
class Ended:
    """How a program ended; a negative code is the number of a signal, as in subprocess."""

    code: int
    output: Output

    def __str__(self) -> str:
        if self.code >= 0:
            return f"ended with exit code {self.code}"
        try:
            return f"was killed by {signal.Signals(-self.code).name}"
        except ValueError:
            return f"was killed by signal {-self.code}"


def run(program: Program, *, on_note: Callable[[str], None]) -> Ended:
    """Run it to its end; `on_note` gets each line it writes to MANENT_CHECKPOINT_FD.

    It stays in the hook's process group, so what is sent to that (SIGTERM at a cancel) reaches
    it without our help, and its end is still waited for.
    """
    output = Output()
    printed, prints = os.pipe()
    noted, notes = os.pipe()
    try:
        process = _start(program, prints, notes)
        _close(prints, notes)
        prints = notes = -1
        forward = output.add if program.is_captured else _tee(output)
        try:
            lines = _Lines(on_note)
            code = _attend(process, {printed: forward, noted: lines.feed})
            lines.end()
        finally:
            if process.poll() is None:
                process.kill()
    finally:
        _close(printed, noted, prints, notes)
    return Ended(code, output)


def _start(program: Program, output: int, notes: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            program.arguments,
            executable=program.path,
            cwd=program.workdir,
            env={**program.environment, "MANENT_CHECKPOINT_FD": str(notes)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            pass_fds=(notes,),
        )
    except OSError as error:
        raise _not_started(program, error) from error


def _not_started(program: Program, error: OSError) -> HookFailure:
    written = program.arguments[0]
    where = f"the folder {program.folder}" if "/" in written else "PATH"
    if error.errno in {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY}:
        return HookFailure(f"{written} could not be started: {error.strerror}")
    reasons = {
        errno.ENOENT: "not found, or the interpreter its first line names is not",
        errno.EACCES: "not executable",
        errno.ENOEXEC: "neither a binary nor a script that begins with #!",
    }
    reason = reasons.get(error.errno or 0, error.strerror)
    return PermanentFailure(
        f"{written} cannot be run: {reason} (looked up in {where}, working folder "
        f"{program.workdir})",
        code="program_not_run",
    )


def _attend(process: subprocess.Popen[bytes], sinks: Mapping[int, Callable[[bytes], None]]) -> int:
    """Pass on what the program writes until it ends, not until its last child closes a pipe."""
    ended = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(ended, selectors.EVENT_READ)
            for descriptor, sink in sinks.items():
                os.set_blocking(descriptor, False)
                selector.register(descriptor, selectors.EVENT_READ, sink)
            while not any(key.fd == ended for key in _pass_on(selector)):
                pass
    finally:
        os.close(ended)
    code = process.wait()
    for descriptor, sink in sinks.items():
        _drain(descriptor, sink)
    return code


def _pass_on(selector: selectors.BaseSelector) -> list[selectors.SelectorKey]:
    ready = [key for key, _ in selector.select()]
    for key in ready:
        if key.data is None:
            continue
        chunk = os.read(key.fd, _CHUNK)
        if chunk:
            key.data(chunk)
        else:
            selector.unregister(key.fd)
    return ready


def _drain(descriptor: int, sink: Callable[[bytes], None]) -> None:
    """What was still in the pipe; a child left behind that goes on printing is not waited for."""
    left = _LEFT_AT_END
    while left > 0:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            return
        sink(chunk)
        left -= len(chunk)


def _tee(output: Output) -> Callable[[bytes], None]:
    def forward(chunk: bytes) -> None:
        output.add(chunk)
        while chunk:
            chunk = chunk[os.write(_STDOUT, chunk) :]

    return forward


class _Lines:
    """A sink that calls `on_line` for each complete line; endless ones are cut."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[:_LINE_LIMIT]
        for line in lines:
            self._on_line(line.decode("utf-8", "replace"))

    def end(self) -> None:
        """A last line may have no newline."""
        if self._rest:
            self.feed(b"\n")


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)
