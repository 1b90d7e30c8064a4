"""A plugin that does what its options say, for tests of the processes around it."""

# It does what careless plugins do.
# ruff: noqa: PTH109, PTH208, S607, T201, TID251

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from manent_server.sdk import Context, PermanentFailure, RetryLater, hookimpl, start_service

_FOREVER = 600


@hookimpl
def deploy(context: Context) -> Any:
    """Run the action named by the option `do`."""
    return globals()[f"do_{context.options.get('do', 'nothing')}"](context)


@hookimpl
def verify(context: Context) -> Any:
    """Return what the options say."""
    return context.options.get("healthy")


def do_nothing(context: Context) -> dict[str, Any]:
    """Answer with what was given."""
    return {"version": context.version, "pid": os.getpid()}


def do_say(context: Context) -> None:
    """Speak on every channel."""
    print("printed")
    print("complained", file=sys.stderr)
    context.log.warning("said")
    context.heartbeat(checkpoint={"at": 3}, progress={"done": 1})


def do_surroundings(context: Context) -> dict[str, Any]:
    """Tell what a hook can see."""
    child = subprocess.run(["/bin/ls", "/proc/self/fd"], capture_output=True, check=True, text=True)
    return {
        "environment": dict(os.environ),
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
        "child": sorted(int(name) for name in child.stdout.split()),
        "stdin": sys.stdin.read(),
        "folder": os.getcwd(),
        "group": os.getpgid(0),
        "session": os.getsid(0),
        "pid": os.getpid(),
        "parent": os.getppid(),
    }


def do_fail(context: Context) -> None:
    """Raise what the options name."""
    how = context.options["how"]
    if how == "permanent":
        raise PermanentFailure("never", code="never")
    if how == "later":
        raise RetryLater("not yet", after=timedelta(seconds=7))
    if how == "exit":
        sys.exit("out")
    if how == "signal":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "vanish":
        os._exit(3)
    raise ValueError("wrong value")


def do_return(context: Context) -> Any:
    """Return a value of a kind the options name."""
    return {
        "list": [1],
        "large": {"text": "x" * 70000},
        "set": {"value": {1}},
        "nan": {"value": float("nan")},
        "nul": {"value": "a\0b\udcff"},
    }[context.options["kind"]]


def do_tree(context: Context) -> None:
    """Start a child, a grandchild and a grandchild in a session of its own; then sleep."""
    pids = Path(context.options["pids"])
    script = "sleep 600 & echo $! >>{0}; setsid sh -c 'echo $$ >>{0}; exec sleep 600' & sleep 600"
    # The last one also wants to be unknown: no environment, a session and a group of its own.
    nameless = ["/usr/bin/setsid", "/bin/sh", "-c", f"echo $$ >>{pids}; exec sleep 600"]
    subprocess.Popen(nameless, env={})
    child = subprocess.Popen(["/bin/sh", "-c", script.format(pids)])
    with pids.open("a") as out:
        out.write(f"{child.pid}\n{os.getpid()}\n")
    _wait_for_lines(pids, 5)
    print("ready")
    if context.options.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf")
    if context.options.get("returns"):
        return
    if context.options.get("fails"):
        raise PermanentFailure("no")
    time.sleep(_FOREVER)


def do_service(context: Context) -> dict[str, Any]:
    """Leave a service behind; then return, fail or sleep as the options say."""
    folder = Path(context.options["folder"])
    pid = start_service(
        ["sh", "-c", "echo up; env >seen; ls -l /proc/self/fd >>seen; sleep 600"],
        workdir=folder,
        environment=None,
        log=folder / "service.log",
    )
    print("ready")
    if context.options.get("then") == "fail":
        raise PermanentFailure("after all")
    if context.options.get("then") == "sleep":
        time.sleep(_FOREVER)
    return {"pid": pid}


def do_polite(context: Context) -> None:
    """Sleep until asked to end."""
    print("ready")
    while not context.cancelled:
        time.sleep(0.01)
    print("ending")


def do_ask(context: Context) -> dict[str, Any]:
    """Watch the lease until it is moved, telling whether it holds."""
    answers = [context.still_owner()]
    print("ready")
    until = time.monotonic() + 10
    before = context.channel._lease_until
    while context.channel._lease_until == before and time.monotonic() < until:
        answers.append(context.still_owner())
        time.sleep(0.01)
    return {"answers": sorted(set(answers)), "moved": context.channel._lease_until != before}


def do_flood(context: Context) -> None:
    """Print lines as fast as can be, by a program that writes large pieces."""
    lines = int(context.options["lines"])
    subprocess.run(["seq", str(lines)], check=True)
    print("last")


def do_bytes(context: Context) -> None:
    """Print bytes that are not UTF-8, then much text."""
    sys.stdout.flush()
    os.write(1, b"\xb2\xff\xfe\n" + "é\0ü\n".encode())
    for number in range(20000):
        os.write(1, f"line {number} {'x' * 50}\n".encode())


def do_long(context: Context) -> None:
    """Print one line of a mebibyte."""
    print("ä" * 524288)


def _wait_for_lines(path: Path, count: int) -> None:
    while len(path.read_text().split()) < count:
        time.sleep(0.01)
