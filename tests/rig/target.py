"""The target of the tests: writes what it does into a ledger outside of the product.

Run as `python -S -E target.py LEDGER CONTROL HOOK` by the `command` plugin. One JSON line is
appended at the start and one at the end of every run; the control file tells it what to do
in between. It imports little, so that a hook starts fast, and nothing of the product.

Orders in the control file are a list; each may name fields a run must have (`hook`,
`application`, `environment`, `target`, `version`, `attempt`, `kind`), and later ones win:
`sleep` seconds, `tick` seconds between lines while sleeping, `wait_for` a file, `print`
text, `flood` lines, `checkpoint`, `child` (leave a detached grandchild ticking so many
seconds), `lock` (a file that says whose run holds a state, as tools keep one; another's run
is refused), `ignore_term`, `signal` (die by it), `last` line of standard output, `exit` code.
"""

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs 5 ms a start
    from typing import Any

_FIELDS = {
    "deploy": "MANENT_DEPLOY_ID",
    "kind": "MANENT_KIND",
    "application": "MANENT_APPLICATION",
    "environment": "MANENT_ENVIRONMENT",
    "target": "MANENT_TARGET",
    "version": "MANENT_VERSION",
    "previous": "MANENT_PREVIOUS_VERSION",
    "attempt": "MANENT_ATTEMPT",
    "epoch": "MANENT_EPOCH",
    "key": "MANENT_IDEMPOTENCY_KEY",
    "checkpoint": "MANENT_CHECKPOINT",
    "workdir": "MANENT_WORKDIR",
}
_NUMBERS = ("attempt", "epoch")

Facts = dict[str, str | int | None]


def now() -> float:
    """Seconds since boot: comparable between all processes of the machine."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def about(hook: str) -> Facts:
    """Who runs: the deploy's facts from the hook's environment, and this process."""
    environment = os.environ  # noqa: TID251 - a hook's context comes as variables
    found: Facts = {name: environment.get(variable) for name, variable in _FIELDS.items()}
    for name in _NUMBERS:
        found[name] = int(found[name] or 0) or None
    run = f"{os.getpid()}-{time.monotonic_ns()}"
    return {**found, "hook": hook, "run": run, "pid": os.getpid(), "session": os.getsid(0)}


def write(ledger: str, event: str, facts: Facts, **more: int) -> None:
    """Append one line with a single write, which the kernel keeps whole."""
    line = json.dumps({"event": event, "at": now(), "wall": time.time(), **facts, **more})
    descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, line.encode() + b"\n")
    os.close(descriptor)


def orders(control: str, facts: Facts) -> "dict[str, Any]":
    """What the control file says to this run, the later order winning."""
    try:
        with open(control, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs 5 ms a start
            rules: list[dict[str, Any]] = json.load(file)
    except FileNotFoundError:
        return {}
    told: dict[str, Any] = {}
    for rule in rules:
        if all(facts.get(name) == value for name, value in rule["when"].items()):
            told.update(rule["do"])
    return told


def sleep(ledger: str, facts: Facts, seconds: float, tick: float | None) -> None:
    """Sleep, leaving a line every `tick` seconds: proof of life for a run that is killed."""
    end = now() + seconds
    while (left := end - now()) > 0:
        time.sleep(min(left, tick or left))
        if tick:
            write(ledger, "tick", facts)


def leave_child(ledger: str, facts: Facts, seconds: float, tick: float | None) -> None:
    """A grandchild in a session of its own, as a careless deploy script leaves one."""
    if os.fork() != 0:
        return
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    child: Facts = {
        **facts,
        "pid": os.getpid(),
        "session": os.getsid(0),
        "run": f"{facts['run']}-child",
    }
    write(ledger, "child", child)
    sleep(ledger, child, seconds, tick or 0.1)
    os._exit(0)


def wait_for(ledger: str, facts: Facts, path: str, tick: float | None) -> None:
    """Wait until the file exists."""
    while not os.path.exists(path):  # noqa: PTH110 - pathlib costs 5 ms a start
        sleep(ledger, facts, 0.02, tick)


def take(path: str, run: str) -> bool:
    """Take a tool's lock: whoever has it under the name of this very run had it before."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs 5 ms a start
            holder = file.read()
        word = "taken over from" if holder == run else "held by"
        print(f"the state is {word} {holder}", flush=True)  # noqa: T201 - the hook's output
        return holder == run
    os.write(descriptor, run.encode())
    os.close(descriptor)
    return True


def speak(told: "dict[str, Any]") -> None:
    """Print what was ordered."""
    if "print" in told:
        print(told["print"], flush=True)  # noqa: T201 - the hook's output is the point
    for number in range(told.get("flood", 0)):
        sys.stdout.write(f"line {number}\n")
    sys.stdout.flush()


def leave(told: "dict[str, Any]") -> int:
    """Die or exit as ordered, with the last lines of the `command` plugin's protocol."""
    if "checkpoint" in told:
        descriptor = int(os.environ["MANENT_CHECKPOINT_FD"])  # noqa: TID251 - a hook's context
        os.write(descriptor, f"checkpoint={json.dumps(told['checkpoint'])}\n".encode())
    if "last" in told:
        print(told["last"], flush=True)  # noqa: T201 - the hook's output is the point
    if "signal" in told:
        os.kill(os.getpid(), told["signal"])
    return int(told.get("exit", 0))


def main(ledger: str, control: str, hook: str) -> int:
    """One run of a hook."""
    facts = about(hook)
    write(ledger, "start", facts)
    told = orders(control, facts)
    if told.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "child" in told:
        leave_child(ledger, facts, told["child"], told.get("tick"))
    speak(told)
    lock = told.get("lock")
    if lock and not take(lock, str(facts["key"])):
        write(ledger, "end", facts, exit=65)
        return 65
    if "wait_for" in told:
        wait_for(ledger, facts, told["wait_for"], told.get("tick"))
    sleep(ledger, facts, told.get("sleep", 0), told.get("tick"))
    if lock:
        os.unlink(lock)  # noqa: PTH108 - pathlib costs 5 ms a start
    write(ledger, "end", facts, exit=told.get("exit", 0))
    return leave(told)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
