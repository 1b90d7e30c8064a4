"""The demo: a server, a small service at three versions, one of them broken. Run by `make demo`.

Nothing is played: a real server on SQLite deploys `examples/hello` with the `release` plugin to
four targets, each a running process with a health URL. All of it lives in a temporary folder and
is gone at the end. With DEMO_JSON=FILE what happened is written there as well.

Exits 0 only if everything is as it should be.
"""

import io
import json
import os
import signal
import sys
import textwrap
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from hello.package import package
from playground import BIN, PLACES, Playground, Trouble
from verdict import faults

_SERVER_WORDS = 8
_INTERRUPTED = 130


@dataclass
class Record:
    """What happened, as `DEMO_JSON` has it, and what the verdict looks at besides."""

    deploys: list[dict[str, Any]] = field(default_factory=list)
    attempts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    answers: dict[str, str | None] = field(default_factory=dict)
    exit_codes: list[int] = field(default_factory=list)
    inventory: list[dict[str, Any]] = field(default_factory=list)
    before: dict[tuple[str, str], Any] = field(default_factory=dict)
    after: dict[tuple[str, str], Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the part that is promised."""
        shown = {"deploys": self.deploys, "attempts": self.attempts, "answers": self.answers}
        path.write_text(json.dumps(shown, indent=2) + "\n")


def main() -> int:
    """Play all acts; the exit code."""
    if not sys.platform.startswith("linux"):
        return _give_up("the demo needs Linux: the release plugin knows processes by /proc")
    if not (BIN / "manent-server").exists():
        return _give_up(f"manent is not installed beside {sys.executable}: run `make demo`")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        return _play()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _give_up("Nobody listens any more. Everything the demo had started is stopped.")
    except KeyboardInterrupt:
        return _give_up("\nInterrupted. Everything the demo had started is stopped.", _INTERRUPTED)


def _play() -> int:
    began = time.monotonic()
    ground = Playground()
    record = Record()
    try:
        with ground:
            _prepare(ground)
            _act_one(ground, record)
            _act_two(ground, record)
            _act_three(ground, record)
            _look(ground, record)
            _judge(record)
    except Trouble as trouble:
        return _give_up(f"\nThe demo failed: {trouble}{_last_words(ground)}")
    _conclude(record, seconds=time.monotonic() - began)
    return 0


def _prepare(ground: Playground) -> None:
    _head("Getting ready")
    _write("Starting a manent server ...")
    package(ground.folder / "artifacts")
    ground.start()
    _tell(
        f"""
        It answers at {ground.url}. Its database is SQLite, and all it has lies in
        {ground.folder}.

        `hello` is a small HTTP service with a health URL, packed at v1, v2 and v3. It goes to
        """
    )
    _write("\n  staging      web-1                 one target")
    _write(
        "  production   web-1, web-2, web-3   two waves: web-1 alone, then the others if it is well"
    )
    _write("\nEach target is a folder and a process of its own on this machine.")


def _act_one(ground: Playground, record: Record) -> None:
    _head("1  v1 goes to staging and to production")
    _tell("Each target unpacks v1, starts it, and waits until its health URL says 200 and v1.")
    _deploy(ground, record, "staging", "v1")
    _deploy(ground, record, "production", "v1")


def _act_two(ground: Playground, record: Record) -> None:
    _head("2  v2 replaces v1")
    _tell("The same way: on each target v1 is stopped, v2 is started, and has to become healthy.")
    _deploy(ground, record, "staging", "v2")
    _deploy(ground, record, "production", "v2")


def _act_three(ground: Playground, record: Record) -> None:
    _head("3  v3 is broken")
    _tell(
        """
        Somebody skips staging, and v3 has lost its greeting: it starts, but its health check says
        503. Watch web-1, the first wave: the check has two tries of 4 seconds, then web-1 goes
        back to v2. The second wave never begins.
        """
    )
    record.before = _services(ground)
    _deploy(ground, record, "production", "v3")
    _write(
        f"\nExit code {record.exit_codes[-1]}: that turns CI red. What was done on each target:\n"
    )
    for target in record.deploys[-1]["targets"]:
        done = [
            f"{attempt['hook']} {attempt['result']}"
            for attempt in record.attempts[record.deploys[-1]["id"]]
            if attempt["target"] == target
        ]
        _write(f"  {target}   {', '.join(done) or 'nothing'}")


def _look(ground: Playground, record: Record) -> None:
    _head("What runs now")
    _write("The services themselves, asked over HTTP:\n")
    record.after = _services(ground)
    for place, answer in record.after.items():
        url = ground.service_url(*place)
        record.answers[url] = answer.get("version")
        _write(
            f"  {place[0]:<12} {place[1]:<7} {url:<25} {answer.get('version')}  "
            f'"{answer.get("greeting")}", process {answer.get("pid")}'
        )
    _write("\nAnd what manent has on record:\n\n$ manent inventory")
    ground.show("inventory")
    record.inventory = ground.get("/inventory")["items"]


def _judge(record: Record) -> None:
    target = os.environ.get("DEMO_JSON")  # noqa: TID251 - how a program asks for it
    if target:
        record.write(Path(target))
    if found := faults(record):
        raise Trouble("\n".join(["not everything is as it should be.", *found]))


def _conclude(record: Record, *, seconds: float) -> None:
    _head("All is as it should be")
    tries = len(record.attempts[record.deploys[-1]["id"]])
    _tell(
        f"""
        - v1 and v2 reached all four targets: four deploys, each in place when `manent` said so.
        - v3 touched web-1 of production alone: {tries} attempts, the last one the rollback to v2.
        - web-2 and web-3 were never visited for v3: the same processes run as before.

        The server and all services are stopped, their folder is removed: {seconds:.0f} seconds.
        Your own first deploy: docs/tutorials/first-deploy.md
        """
    )


def _deploy(ground: Playground, record: Record, environment: str, version: str) -> None:
    _write(f"\n$ manent deploy hello {environment} {version}")
    deploy, code = ground.deploy("hello", environment, version)
    record.deploys.append(ground.get(f"/deploys/{deploy}"))
    record.attempts[deploy] = ground.get(f"/deploys/{deploy}/attempts")["items"]
    record.exit_codes.append(code)


def _services(ground: Playground) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {place: ground.answer(ground.service_url(*place)) for place in PLACES}


def _last_words(ground: Playground) -> str:
    try:
        words = ground.log.read_text(errors="replace").splitlines()[-_SERVER_WORDS:]
    except OSError:
        return ""
    last = "\n".join(f"  {line}" for line in words)
    return f"\n\nThe server's last words, more in {ground.log}:\n{last}"


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _head(text: str) -> None:
    is_plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ  # noqa: TID251 - a terminal's
    line = f"== {text} " + "=" * max(3, 76 - len(text))
    _write(f"\n{line}\n" if is_plain else f"\n\x1b[1m{line}\x1b[0m\n")


def _tell(text: str) -> None:
    _write(textwrap.dedent(text).rstrip().removeprefix("\n"))


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _give_up(text: str, code: int = 1) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"{text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
