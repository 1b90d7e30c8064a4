"""kill -9 in a hook, restart at once: when the interrupted hook runs again."""

import time

from bench import history
from bench.report import Figure, alone
from bench.sides import Ours
from bench.size import Size
from tests.rig.process import until

_RECOVERY = {"heartbeat_interval": "1s", "stale_after": "5s"}


def of_a_killed_worker(ours: Ours, size: Size) -> list[Figure]:
    """With automatic recovery off: the same worker comes back and goes on."""
    ours.rig.configure({"recovery": _RECOVERY})
    ours.rig.stop(limit=60)
    ours.rig.start()
    taken = [_once(ours) for _ in range(size.restarts)]
    name = "kill -9 and restart to resumed hook (stale_after 5s)"
    return [alone(name, "s", [taken], None)]


def _once(ours: Ours) -> float:
    deploy = ours.deploy(environment="other", application="sleeper")
    until(lambda: _begins(ours, deploy), what="the hook to begin")
    ours.rig.kill()
    killed = time.monotonic()
    ours.rig.start()
    again = until(lambda: _begins(ours, deploy)[1:], what="the hook to begin again", limit=60)
    ours.wait([deploy])
    if history.repeated([mark for mark in ours.marks() if mark.run.startswith(deploy)]):
        raise AssertionError(f"a finished step of {deploy} was run again")
    return again[0] - killed


def _begins(ours: Ours, deploy: str) -> list[float]:
    return [
        mark.at
        for mark in ours.marks()
        if mark.run.startswith(deploy) and mark.event == "begin" and mark.step == "deploy:a"
    ]
