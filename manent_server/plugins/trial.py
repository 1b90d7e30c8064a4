"""A worker without a server: runs the hooks it is told to on stdin, for trying plugins out.

One JSON object a line. In: `{"attempt", "plugin", "hook", "context", ...}` runs a hook;
`{"cancel"|"kill": ATTEMPT}` ends one. Out: `ready` with the plugins, then `line` and `heartbeat`
as they come and `end` once for each attempt. It ends when its stdin does.
"""

import json
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from manent_server.plugins.events import Event, Heartbeat, LogLine, one_by_one
from manent_server.plugins.host import Host, discover
from manent_server.plugins.runner import HookCall, HookEnd, Runner

_LINE_LIMIT = 16 * 1024
_printing = threading.Lock()


def main() -> None:
    """Run until stdin ends."""
    folder = Path(sys.argv[1])
    external: dict[str, list[str]] = json.loads(sys.argv[2]) if sys.argv[2:] else {}
    host = discover(external)
    runner = Runner(
        external=external, state_dir=folder, warm=1, processes=16, line_limit=_LINE_LIMIT
    )
    runner.start()
    try:
        _say(_ready(host, runner))
        for line in sys.stdin:
            _obey(json.loads(line), runner, folder)
    finally:
        runner.close()


def _ready(host: Host, runner: Runner) -> dict[str, Any]:
    plugins = {name: sorted(host.plugin(name).hooks) for name in sorted(host.names())}
    return {"type": "ready", "plugins": plugins, "broken": host.broken, "zygote": runner.zygote}


def _obey(order: dict[str, Any], runner: Runner, folder: Path) -> None:
    if "kill" in order:
        runner.kill(order["kill"])
    elif "cancel" in order:
        grace = timedelta(seconds=order.get("grace", 10))
        runner.cancel(order["cancel"], reason="cancelled", grace=grace)
    else:
        call = _call(order, folder)
        threading.Thread(target=_run, args=(runner, call), daemon=True).start()


def _call(order: dict[str, Any], folder: Path) -> HookCall:
    return HookCall(
        attempt_id=order["attempt"],
        plugin=order["plugin"],
        hook=order["hook"],
        context=order["context"],
        timeout=timedelta(seconds=order.get("timeout", 60)),
        kill_grace=timedelta(seconds=order.get("grace", 10)),
        lease_until=order.get("lease_until"),
        lock_file=folder / "locks" / order["attempt"],
    )


def _run(runner: Runner, call: HookCall) -> None:
    def hear(events: Sequence[Event]) -> None:
        for event in one_by_one(events):
            _say({"attempt": call.attempt_id, **_event(event)})

    with runner.place():
        end = runner.call(call, on_events=hear)
    _say({"type": "end", "attempt": call.attempt_id, **_end(end)})


def _event(event: LogLine | Heartbeat) -> dict[str, Any]:
    kind = "line" if isinstance(event, LogLine) else "heartbeat"
    return {"type": kind, **event._asdict()}


def _end(end: HookEnd) -> dict[str, Any]:
    after = end.retry_after
    return {
        "result": end.result,
        "outputs": end.outputs,
        "error": end.error,
        "retry_after": None if after is None else after.total_seconds(),
        "retryable": end.retryable,
        "is_dead": end.is_dead,
    }


def _say(message: dict[str, Any]) -> None:
    with _printing:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
