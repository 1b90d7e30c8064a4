"""What the chaos target does: every run leaves its start, its ticks and its end in the ledger.

Run as `python -S -E hook.py LEDGER HOOK` by the `command` plugin. How it behaves stands in the
version, `NUMBER.MILLISECONDS.MODE`, so that the same deploy always does the same:

`ok` succeeds; `bad` fails for good in `deploy`; `sick` fails in `verify`; `slip` fails once,
then succeeds; `long` is `ok`; `brood` leaves a detached grandchild ticking; `deaf` ignores SIGTERM.
"""

import os
import signal
import sys
import time

# Run without site-packages and without the project's folder on its path.
sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir, "rig"))  # noqa: PTH118, PTH120

import target

TICK = 0.1


def about(hook: str) -> "target.Facts":
    """Who runs, for which worker."""
    facts = target.about(hook)
    # work-w1/w1/...: the folder is named after the worker.
    parts = str(facts["workdir"]).split("/")
    name = next((part for part in parts if part.startswith("work-")), "work-?")
    return {**facts, "executor": name.removeprefix("work-")}


def raw() -> int:
    """Nanoseconds of the clock nothing steers."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def speak(number: int, attempt: int) -> None:
    """One numbered line with the secret in it."""
    secret = os.environ.get("CHAOS_SECRET", "")  # noqa: TID251 - a hook's context
    print(f"line {number} of attempt {attempt} {secret}", flush=True)  # noqa: T201 - the log


def code(mode: str, hook: str, attempt: int) -> int:
    """How the run ends."""
    if (mode, hook) in {("bad", "deploy"), ("sick", "verify")}:
        return 65
    if mode == "slip" and hook == "deploy" and attempt == 1:
        return 1
    return 0


def main(ledger: str, hook: str) -> int:
    """One run."""
    facts = about(hook)
    target.write(ledger, "start", facts, raw=raw())
    _, _, told = str(facts["version"]).partition(".")
    milliseconds, _, mode = told.partition(".")
    attempt = int(facts["attempt"] or 0)
    if mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "brood":
        target.leave_child(ledger, facts, 30.0, TICK)
    end = target.now() + int(milliseconds or 0) / 1000 * (0.3 if hook == "verify" else 1)
    number = 0
    while (left := end - target.now()) > 0:
        time.sleep(min(left, TICK))
        speak(number, attempt)
        number += 1
        target.write(ledger, "tick", facts, raw=raw())
    exit_code = code(mode, hook, attempt)
    target.write(ledger, "end", facts, raw=raw(), exit=exit_code, lines=number)
    return exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
