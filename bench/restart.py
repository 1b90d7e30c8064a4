"""kill -9 in a hook, restart at once: when the interrupted hook runs again."""

import time

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
    until(lambda: ours.begins(deploy), what="the hook to begin")
    ours.rig.kill()
    killed = time.monotonic()
    ours.rig.start()
    again = until(lambda: ours.begins(deploy)[1:], what="the hook to begin again", limit=60)
    ours.wait([deploy])
    ours.demand_nothing_repeated(deploy)
    return again[0] - killed
