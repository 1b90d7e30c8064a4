"""Runs the `console` blocks of a page as a reader would, and compares what they print.

A line that starts with `$ ` is a command, and lines that start with `> ` continue it; the lines
below are expected, in order. `...` stands for anything, and more may be printed between two.
`manent-server serve` is left running, as in a second terminal. Ports 8420 and 8421 are replaced
by free ones, since a reader's machine has nobody on them and a test machine may.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Self

from tests.rig.ports import free_port
from tests.rig.process import Process, files, sweep, until
from tests.rig.serve import BIN, path_environment, run

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SERVE = "manent-server serve"
_DEFAULT_PORTS = ("8420", "8421")


@dataclass(frozen=True)
class Command:
    """One command of a page with the output it is promised to have."""

    text: str
    expected: tuple[str, ...]


def commands(page: str) -> list[Command]:
    """Every command in the page's `console` blocks."""
    found: list[Command] = []
    for block in _BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, *rest = part.splitlines()
            typed = list(takewhile(lambda line: line.startswith(">"), rest))
            text = "\n".join([first, *(line[1:].removeprefix(" ") for line in typed)])
            found.append(Command(text, tuple(filter(str.strip, rest[len(typed) :]))))
    return found


def missing(expected: Iterable[str], output: str) -> str | None:
    """The first expected line that does not follow in the output."""
    lines = iter(output.splitlines())
    for wanted in expected:
        pattern = re.compile(_pattern(wanted))
        if not any(pattern.fullmatch(" ".join(line.split())) for line in lines):
            return wanted
    return None


def _pattern(wanted: str) -> str:
    words = " ".join(wanted.split())
    return ".*".join(re.escape(part) for part in words.split("..."))


@dataclass
class Reader:
    """Somebody who types the commands of a page into a terminal, in an empty folder."""

    folder: Path
    _servers: list[Process] = field(default_factory=list)
    _ports: Mapping[str, str] = field(
        default_factory=lambda: {port: str(free_port()) for port in _DEFAULT_PORTS}
    )

    def __post_init__(self) -> None:
        self._here = self.folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.end()
        sweep(self.folder)

    def follow(self, page: str) -> None:
        """Type every command and compare; an AssertionError names the first that differs."""
        for command in commands(page):
            said = self.type(command)
            if (wanted := missing(command.expected, said)) is not None:
                raise AssertionError(f"$ {command.text}\nno line {wanted!r} (in order) in:\n{said}")

    def type(self, command: Command) -> str:
        """Run one command; what it printed."""
        if command.text.startswith(_SERVE):
            return self._serve(command)
        return self._run(command.text)

    def _run(self, text: str) -> str:
        place = self.folder / ".pwd"
        script = f"exec 2>&1; set -e\n{self._moved(text)}\npwd > {place}"
        ended = run(["bash", "-c", script], cwd=self._here, environ=self._environ())
        if ended.returncode != 0:
            raise AssertionError(f"$ {text}\nexit {ended.returncode}\n{ended.stdout}")
        self._here = Path(place.read_text().strip())
        self._move_ports()
        return self._moved_back(ended.stdout)

    def _serve(self, command: Command) -> str:
        log = self._here / "serve.log"
        words = command.text.split()
        program = [str(BIN / words[0]), *words[1:]]
        server = Process(program, log=log, environ=self._environ(), is_exact=True)
        self._servers.append(server)

        def said() -> str | None:
            output = self._moved_back(server.output())
            is_complete = missing(command.expected, output) is None
            return output if is_complete or not server.is_running() else None

        return until(said, what=f"output of $ {command.text}", limit=60) or ""

    def _environ(self) -> dict[str, str]:
        return path_environment(self.folder, first=BIN)

    def _move_ports(self) -> None:
        for path in files(self.folder, "manent.yml", "contexts.json"):
            text = path.read_text()
            moved = self._moved(text)
            # The metrics listener is a default that the written file does not name.
            if path.name == "manent.yml" and "metrics_listen" not in moved:
                line = f"server:\n  metrics_listen: 127.0.0.1:{self._ports['8421']}\n"
                moved = moved.replace("server:\n", line, 1)
            if moved != text:
                path.write_text(moved)

    def _moved(self, text: str) -> str:
        for port, free in self._ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free}")
        return text

    def _moved_back(self, text: str) -> str:
        for port, free in self._ports.items():
            text = text.replace(f"127.0.0.1:{free}", f"127.0.0.1:{port}")
        return text
