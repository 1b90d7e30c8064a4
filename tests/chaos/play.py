"""One run: the stage is opened, clients and nemesis play, everything heals, the record is read."""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.chaos import checkers, people, record
from tests.chaos.checker import Violation
from tests.chaos.clients import Client, plan, wait_all
from tests.chaos.history import ENDED, History
from tests.chaos.nemesis import NEEDED, Nemesis
from tests.chaos.people import Person
from tests.chaos.record import Recorder, now
from tests.chaos.stage import (
    APPLICATIONS,
    GATED,
    HOME,
    HOMES,
    SECRET,
    WORKERS,
    Stage,
    settings,
)
from tests.rig.postgres import Postgres
from tests.rig.serve import MAIN

ENDS, TAKEOVERS, DECISIONS = 20, 3, 1
_QUIET = 180.0
_ACTS = 2000


@dataclass(frozen=True)
class Play:
    """How one run goes."""

    seed: int
    seconds: float
    faults: bool = True
    longest: float = 0.0
    only: tuple[str, ...] = ()
    acts: int = _ACTS
    mutant: str = ""
    strain: str = ""
    modes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What came of it."""

    history: History
    violations: list[Violation]
    counted: Counter[str]
    takeovers: int
    ends: int
    seconds: float
    settled: float

    @property
    def missing(self) -> list[str]:
        """What keeps the run from counting."""
        lacking = list((Counter(NEEDED) - self.counted).elements())
        lacking += ["takeover"] * max(0, TAKEOVERS - self.takeovers)
        lacking += ["decision"] * max(0, DECISIONS - len(people.decisions(self.history)))
        return lacking + ["end"] * max(0, ENDS - self.ends)

    def __str__(self) -> str:
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self.counted.items()))
        return (
            f"seed {self.history.settings['seed']}: {self.seconds:.0f} s, {self.ends} ends, "
            f"{self.takeovers} takeovers, {_told(self.history)}, "
            f"settled {self.settled:.0f} s after the last fault, "
            f"{sum(self.counted.values())} faults ({faults}), {len(self.violations)} violations"
        )


def _told(history: History) -> str:
    """How much people have decided."""
    found, against = people.decisions(history), people.decisions(history, "reject")
    asked = {approval for approval, _ in found}
    return (
        f"{len(found)} decisions on {len(asked)} deploys ({len(against)} rejections; "
        f"{people.amid_faults(history)} amid faults)"
    )


def perform(play: Play, folder: Path) -> Result:
    """Run it; call from the main thread."""
    server = Postgres()
    try:
        return _on(server, play, folder)
    finally:
        server.close()


def _on(server: Postgres, play: Play, folder: Path) -> Result:
    recorder = Recorder(folder, settings(play.seed))
    stage = Stage(folder, server, recorder=recorder, mutant=play.mutant, strain=play.strain)
    stop, home = threading.Event(), threading.Event()
    try:
        stage.open()
        _plan(stage)
        clients = [_client(stage, name, play, stop) for name in APPLICATIONS]
        voters = _voters(stage, play, home)
        for one in (*clients, *voters):
            one.start()
        nemesis = Nemesis(stage, play.seed, only=play.only)
        began = now()
        _play(stage, nemesis, play, [*clients, *voters])
        seconds = now() - began
        nemesis.heal()
        stop.set()
        wait_all(clients, 60.0)
        settled = _settle(stage)
        home.set()
        wait_all(voters, 60.0)
        history = _collect(stage, clients)
    finally:
        stop.set()
        home.set()
        stage.close()
    return Result(
        history,
        checkers.check(history),
        nemesis.counted(),
        history.settings["takeovers"],
        sum(row["state"] in ENDED for row in history.deploys),
        seconds,
        settled,
    )


def _plan(stage: Stage) -> None:
    """Automation beside the clients: what fires every minute, whatever happens meanwhile."""
    for application, environment in (("ant", "stage"), ("bee", "prod")):
        body = {
            "name": f"each-{application}", "application": application,
            "environment": environment, "cron": "* * * * *", "version": "0.300.ok",
        }  # fmt: skip
        assert stage.http("POST", "/schedules", json=body).status_code == 201


def _client(stage: Stage, name: str, play: Play, stop: threading.Event) -> Client:
    acts = plan(play.seed, name, play.acts, HOMES.get(name, HOME), play.modes)
    return Client(name, stage.url, stage.token, acts, stage.recorder, stop)


def _voters(stage: Stage, play: Play, stop: threading.Event) -> list[Person]:
    """They decide until everything has ended: what waits for them ends by them alone."""
    tokens = {who: stage.person(who) for who in people.PEOPLE}
    more = {"url": stage.url, "seed": play.seed, "environment": GATED}
    return people.hire(tokens, recorder=stage.recorder, stop=stop, **more)


def _play(stage: Stage, nemesis: Nemesis, play: Play, clients: Sequence[Client | Person]) -> None:
    """Faults for the time given, and on until the run counts."""
    end = now() + play.seconds
    latest = now() + max(play.seconds, play.longest)
    looked, lacks = now(), {"fault"}
    while now() < latest and (now() < end or lacks):
        if play.faults:
            # When only what comes by itself is missing, more faults would but keep them away.
            nemesis.turn(is_calm=now() > end and lacks <= {"end", "decision"})
        elif not any(one.is_alive() for one in clients if isinstance(one, Client)):
            return
        time.sleep(0.05)
        if now() - looked > 1.0:
            looked, lacks = now(), _lacks(stage, nemesis) if now() > end else lacks
            for client in clients:
                if client.crash is not None:
                    raise client.crash


def _lacks(stage: Stage, nemesis: Nemesis) -> set[str]:
    """What the run still needs to count."""
    lacks = {"fault"} if Counter(NEEDED) - nemesis.counted() else set()
    lacks |= {"decision"} if len(people.decisions(stage.recorder.history)) < DECISIONS else set()
    try:
        lacks |= {"takeover"} if stage.recorder.takeovers() < TAKEOVERS else set()
        if len(_everything(stage, list(ENDED))) < ENDS:
            _lift(stage)  # else all that is asked for may wait for a lock
            lacks |= {"end"}
    except (httpx2.HTTPError, AssertionError, record.Unreachable):
        return lacks | {"answer"}
    return lacks


def _settle(stage: Stage) -> float:
    """Delete schedules, lift locks and wait until every deploy has ended; how long that took."""
    began = now()
    while now() - began < _QUIET:
        stage.supervise()
        try:
            for schedule in stage.get("/schedules")["items"]:
                stage.http("DELETE", f"/schedules/{schedule['name']}")
            _lift(stage)
            if not _everything(stage, ["DELAYED", "ENQUEUED", "PENDING"]):
                break
        except (httpx2.HTTPError, AssertionError):
            pass
        time.sleep(0.3)
    return now() - began


def _lift(stage: Stage) -> None:
    """Lift what a failed deploy or a rollback has left: nobody else would."""
    for sort in ("locks", "holds"):
        for mark in stage.get(f"/{sort}")["items"]:
            stage.http("DELETE", f"/{sort}/{mark['id']}")


def _everything(stage: Stage, states: list[str]) -> list[dict[str, Any]]:
    """All deploys in these states."""
    found: list[dict[str, Any]] = []
    before: str | None = None
    while True:
        query: dict[str, Any] = {"state": states, "limit": 500}
        page = stage.get("/deploys", **query | ({"before": before} if before else {}))
        found += page["items"]
        before = page["next"]
        if before is None:
            return found


def _collect(stage: Stage, clients: list[Client]) -> History:
    """Read everything that is left, then end the processes and look for the secret."""
    recorder = stage.recorder
    deploys = _everything(stage, [*ENDED, "DELAYED", "ENQUEUED", "PENDING"])
    for row in deploys:
        if row["state"] not in ENDED:
            row["summary"] = stage.get(f"/deploys/{row['id']}/explain")["summary"]
        recorder.lines(row["id"], _log(stage, row["id"]), is_final=True)
    sent = now()
    people.note(recorder, "", stage.get("/approvals", limit=500)["items"], sent)
    history = recorder.collect(deploys=deploys, inventory=stage.get("/inventory")["items"])
    history.settings["takeovers"] = recorder.takeovers()
    history.settings["calm_ends"] = {
        nonce: end for client in clients for nonce, end in client.calm.items()
    }
    files = [stage.folder / f"{name}.log" for name in (MAIN, *WORKERS)]
    files += [path for path in stage.folder.glob("work-*/**/*") if path.is_file()]
    told = [str(call.answer) for call in history.calls]
    told += [line.text for line in history.lines]
    history.leaks = record.leaks(SECRET, stage.database_url, files, told)
    return history


def _log(stage: Stage, deploy: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    after = 0
    while page := stage.get(f"/deploys/{deploy}/logs", after=after, limit=500)["items"]:
        items += page
        after = page[-1]["sequence"]
    return items
