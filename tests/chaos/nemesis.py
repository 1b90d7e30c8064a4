"""The nemesis: breaks one thing after another, by a seed, where a hook is running."""

import contextlib
import heapq
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from itertools import count

import psycopg

from tests.chaos.history import Fault, Mark
from tests.chaos.record import now, tail
from tests.chaos.stage import RECOVER, WORKERS, Stage, faketime
from tests.rig.serve import MAIN

# What a run needs to count, and what it gets beside that.
NEEDED = ("kill", "kill", "kill", "kill", "pause_long", "database_kill", "partition_long")
MORE = (
    "pause_short", "term", "backends", "stalled", "pool", "guard", "row_lock", "skew",
    "partition_short", "database_fast", "database_immediate", "api", "swizzle", "cut",
    "outage", "term", "operator", "operator_early", "deploy_lock", "late",
)  # fmt: skip
_OF_DATABASE = frozenset({"database_fast", "database_immediate", "database_kill", "outage"})
_BEYOND = (RECOVER + 2.0, RECOVER + 4.0)
_FRESH = 0.4
_DRAIN_LIMIT = 14.0
_LONGEST = 40.0


class Watcher:
    """Follows the ledger: which hooks run now."""

    def __init__(self, stage: Stage) -> None:
        self._path = stage.folder / "ledger.jsonl"
        self._seen = 0
        self._last: dict[str, Mark] = {}
        self._children: set[str] = set()

    def running(self) -> list[Mark]:
        """The last lines of hooks that are alive."""
        fresh, self._seen = tail(self._path, self._seen)
        self._children |= {mark.run for mark in fresh if mark.event == "child"}
        for mark in fresh:
            if mark.run not in self._children:  # what a hook has left is no hook
                self._last[mark.run] = mark
        since = now() - _FRESH
        self._last = {run: mark for run, mark in self._last.items() if mark.at > since}
        return [mark for mark in self._last.values() if mark.event in ("start", "tick")]


class Nemesis:
    """Deals faults from a shuffled deck; call `turn` often from the main thread."""

    def __init__(self, stage: Stage, seed: int, *, only: tuple[str, ...] = ()) -> None:
        self.stage = stage
        self._draw = random.Random(f"nemesis {seed}")  # noqa: S311 - to be repeated
        self._only = only
        self._watcher = Watcher(stage)
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._deck: list[str] = []
        self._next_at = now() + 2.0
        self._is_away = False
        self._waits_since: float | None = None

    def turn(self, *, is_calm: bool = False) -> None:
        """Start again what has ended, end what is due, perhaps begin a fault."""
        self.stage.supervise()
        while self._later and self._later[0][0] <= now():
            heapq.heappop(self._later)[2]()
        if now() >= self._next_at and not is_calm:
            self._begin()

    def heal(self) -> None:
        """End every fault now."""
        while self._later:
            heapq.heappop(self._later)[2]()
        for name in self.stage.cable:
            self.stage.join(name)
        self.stage.down.clear()
        self.stage.supervise()

    def counted(self) -> Counter[str]:
        """The faults that count so far, by kind."""
        history = self.stage.recorder.history
        return Counter(fault.kind for fault in history.faults if fault.counts)

    # Choosing

    def _begin(self) -> None:
        if not self._deck:
            self._deck = self._fresh_deck()
        kind = self._deck[-1]
        if kind in _OF_DATABASE and self._is_away:
            self._next_at = now() + 0.5
            return
        victim = self._victim(kind)
        if victim is None:
            self._postpone()
            return
        self._waits_since = None
        self._deck.pop()
        getattr(self, f"_{kind}")(victim)
        self._next_at = now() + self._draw.uniform(0.8, 3.0)

    def _fresh_deck(self) -> list[str]:
        if self._only:
            return list(self._only)
        counted, needed = self.counted(), Counter(NEEDED)
        missing = list((needed - counted).elements())
        optional = list(MORE) if missing else [*MORE, *set(NEEDED), "kill", "pause_long"]
        self._draw.shuffle(optional)
        deck = missing + optional[: max(6, len(optional) // 2)]
        self._draw.shuffle(deck)
        return deck

    def _victim(self, kind: str) -> Mark | None:
        """A running hook whose worker can still be harmed."""
        running = [mark for mark in self._watcher.running() if mark.executor in WORKERS]
        is_free = [mark for mark in running if mark.executor not in self.stage.down]
        found = running if kind in _OF_DATABASE else is_free
        return self._draw.choice(sorted(found, key=lambda mark: mark.run)) if found else None

    def _postpone(self) -> None:
        """Nobody is at work: try again, and after a while with another fault."""
        self._waits_since = self._waits_since or now()
        if now() - self._waits_since > 4.0:
            self._deck.insert(0, self._deck.pop())
            self._waits_since = None
        self._next_at = now() + 0.1

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._later, (now() + seconds, next(self._order), act))

    def _note(self, kind: str, victim: str | None, detail: str = "") -> Fault:
        return self.stage.recorder.fault(Fault(kind, now(), victim, detail=detail))

    # Faults of one worker

    def _kill(self, hook: Mark, *, kind: str = "kill", pause: float | None = None) -> None:
        name = hook.executor
        fault = self._note(kind, name, f"in {hook.hook}")
        self.stage.down.add(name)
        self.stage.kill(name)
        self.stage.note_exit(name, self.stage.process(name))
        # At once, as a restart under the same id; or so late that another has taken over.
        drawn = self._draw.choice([0.0, RECOVER + 2.0])
        self._after(drawn if pause is None else pause, lambda: self._back(fault, name))

    def _back(self, fault: Fault, name: str) -> None:
        self.stage.down.discard(name)
        if not self.stage.process(name).is_running():
            self.stage._own_environ[name] = self.stage.environ.get(name, {})
            self.stage.start(name, wait=False)
        self.stage.recorder.healed(fault)

    def _operator(self, hook: Mark) -> None:
        """Killed, and recovered by two people at once as soon as the registry allows it."""
        name = hook.executor
        self._note("operator", name)
        self._kill(hook, pause=RECOVER + 4.0)
        self._call_operators(name)

    def _operator_early(self, hook: Mark) -> None:
        """Stopped, and recovered by people who are wrong: its hook lives until its lease ends."""
        self._pause(hook, RECOVER + 4.0, "operator_early")
        self._call_operators(hook.executor)

    def _call_operators(self, name: str) -> None:
        for person in ("one", "other"):
            key = f"{name}-{now():.3f}-{person}"
            threading.Thread(target=self._recover, args=(name, key), daemon=True).start()

    def _recover(self, name: str, key: str) -> None:
        for _ in range(20):
            threading.Event().wait(0.5)
            status = self.stage.ask("/admin/recover", {"executor": name}, key)
            if status is not None and status < 300:
                return

    def _deploy_lock(self, hook: Mark) -> None:
        """Killed while another session holds its deploys: a takeover has to pass them over."""

        def hold(connection: psycopg.Connection[tuple[object, ...]]) -> None:
            query = "SELECT id FROM manent.deploys WHERE executor = %s FOR UPDATE"
            with connection.transaction():
                connection.execute(query, [hook.executor])
                threading.Event().wait(RECOVER + 3.0)

        self._in_background(hold)
        # It comes back so late that others must have gone on by then.
        self._after(0.3, lambda: self._kill(hook, kind="deploy_lock", pause=RECOVER + 30.0))

    def _skew(self, hook: Mark) -> None:
        environ = faketime(self._draw.choice([-90, 90, 600]))
        if environ is not None:
            self.stage.environ[hook.executor] = environ
            self._after(25.0, lambda: self.stage.environ.pop(hook.executor, None) and None)
            self._kill(hook, kind="skew")

    def _pause(self, hook: Mark, seconds: float, kind: str) -> None:
        name = hook.executor
        process = self.stage.process(name)
        fault = self._note(kind, name, f"{seconds:.1f} s")
        self.stage.down.add(name)
        process.send(signal.SIGSTOP)

        def go_on() -> None:
            if process.is_running():
                process.send(signal.SIGCONT)
            self.stage.down.discard(name)
            self.stage.recorder.healed(fault)

        self._after(seconds, go_on)

    def _pause_short(self, hook: Mark) -> None:
        self._pause(hook, self._draw.uniform(0.3, 2.8), "pause_short")

    def _pause_long(self, hook: Mark) -> None:
        self._pause(hook, self._draw.uniform(*_BEYOND), "pause_long")

    def _swizzle(self, hook: Mark) -> None:
        """All workers stop one by one and go on in another order."""
        for name in self._draw.sample(WORKERS, len(WORKERS)):
            if name not in self.stage.down and self.stage.process(name).is_running():
                mark = hook if name == hook.executor else None
                process = self.stage.process(name)
                self.stage.recorder.fault(Fault("swizzle", now(), name, counts=mark is not None))
                process.send(signal.SIGSTOP)
                self._after(self._draw.uniform(0.5, 6.0), lambda each=process: _go_on(each))

    def _term(self, hook: Mark) -> None:
        name = hook.executor
        process = self.stage.process(name)
        fault = self._note("term", name)
        process.send(signal.SIGTERM)

        def look() -> None:
            is_late = process.is_running() and now() - fault.at > _DRAIN_LIMIT - 0.1
            if is_late and self._was_disturbed(fault) and now() - fault.at < _LONGEST:
                self._after(2.0, look)
                return
            if is_late:
                words = f"still there {_DRAIN_LIMIT} s after SIGTERM: {process.last_words()}"
                self.stage.recorder.exit(name, -1000, words)
                process.kill()
            self.stage.recorder.healed(fault)

        self._after(_DRAIN_LIMIT, look)

    def _was_disturbed(self, term: Fault) -> bool:
        """Whether something else befell a worker that was draining, or had not left it yet."""
        others = (
            fault
            for fault in self.stage.recorder.history.faults
            if fault.victim in (term.victim, None) and fault != term
        )
        since = term.at - _DRAIN_LIMIT
        return any(
            fault.at > term.at
            or (fault.at > since and (fault.until is None or fault.until > term.at))
            for fault in others
        )

    def _guard(self, hook: Mark) -> None:
        self._note("guard", hook.executor, f"pid {hook.session}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(hook.session, signal.SIGKILL)

    def _cable(self, hook: Mark, mode: str, seconds: float, kind: str) -> None:
        name = hook.executor
        where = " namespace" if mode == "silent" and self.stage.is_apart(name) else ""
        fault = self._note(kind, name, f"{mode}{where} {seconds:.1f} s")
        if mode == "silent":
            self.stage.part(name)
        else:
            self.stage.cable[name].set(mode)

        def heal() -> None:
            self.stage.join(name)
            self.stage.recorder.healed(fault)

        self._after(seconds, heal)

    def _partition_long(self, hook: Mark) -> None:
        self._cable(hook, "silent", self._draw.uniform(*_BEYOND), "partition_long")

    def _partition_short(self, hook: Mark) -> None:
        self._cable(hook, "silent", self._draw.uniform(0.5, 2.5), "partition_short")

    def _cut(self, hook: Mark) -> None:
        self._cable(hook, "broken", self._draw.uniform(1.0, RECOVER + 3.0), "cut")

    def _stalled(self, hook: Mark) -> None:
        self._cable(hook, "stalled", self._draw.uniform(1.0, 5.0), "stalled")

    def _late(self, hook: Mark) -> None:
        """Answers are under way for long, then none comes any more."""
        name = hook.executor
        fault = self._note("late", name)
        self.stage.cable[name].set("late")

        def heal() -> None:
            self.stage.join(name)
            self.stage.recorder.healed(fault)

        self._after(6.0, lambda: self.stage.cable[name].set("silent"))
        self._after(6.0 + self._draw.uniform(*_BEYOND), heal)

    # Faults of everybody

    def _api(self, hook: Mark) -> None:
        self._note("api", MAIN)
        self.stage.kill(MAIN)

    def _away(self, kind: str, number: signal.Signals, seconds: float) -> None:
        fault = self._note(kind, None, f"{seconds:.1f} s")
        self._is_away = True
        if number == signal.SIGKILL:
            self.stage.server.kill()
        else:
            self.stage.server.stop(number)

        def back() -> None:
            self.stage.server.start()
            self._is_away = False
            self.stage.recorder.healed(fault)

        self._after(seconds, back)

    def _database_fast(self, hook: Mark) -> None:
        self._away("database_fast", signal.SIGINT, self._draw.uniform(0.1, 1.5))

    def _database_immediate(self, hook: Mark) -> None:
        self._away("database_immediate", signal.SIGQUIT, self._draw.uniform(0.1, 1.5))

    def _database_kill(self, hook: Mark) -> None:
        self._away("database_kill", signal.SIGKILL, self._draw.uniform(0.1, 1.5))

    def _outage(self, hook: Mark) -> None:
        self._away("outage", signal.SIGINT, self._draw.uniform(*_BEYOND))

    def _backends(self, hook: Mark) -> None:
        query = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE random() < 0.5"
            " AND backend_type = 'client backend' AND application_name <> 'nemesis'"
        )
        self._note("backends", None)
        self._in_background(lambda connection: connection.execute(query))

    def _pool(self, hook: Mark) -> None:
        """Take every connection the server has left, for three seconds."""
        self._note("pool", None)

        def exhaust(_: psycopg.Connection[tuple[object, ...]]) -> None:
            with contextlib.ExitStack() as held:
                with contextlib.suppress(psycopg.OperationalError):
                    for _ in range(200):
                        held.enter_context(psycopg.connect(self.stage.database_url))
                threading.Event().wait(3.0)

        self._in_background(exhaust)

    def _row_lock(self, hook: Mark) -> None:
        """Another session holds the rows of all open attempts."""
        seconds = self._draw.choice([2.0, RECOVER + 1.0])
        self._note("row_lock", hook.executor, f"{seconds:.0f} s")

        def hold(connection: psycopg.Connection[tuple[object, ...]]) -> None:
            with connection.transaction():
                connection.execute(
                    "SELECT id FROM manent.attempts WHERE ended_at IS NULL FOR UPDATE"
                )
                threading.Event().wait(seconds)

        self._in_background(hold)

    def _in_background(
        self, act: Callable[[psycopg.Connection[tuple[object, ...]]], object]
    ) -> None:
        def run() -> None:
            with (
                contextlib.suppress(psycopg.Error),
                psycopg.connect(
                    self.stage.database_url, autocommit=True, application_name="nemesis"
                ) as connection,
            ):
                act(connection)

        threading.Thread(target=run, daemon=True).start()


def _go_on(process: object) -> None:
    if process.is_running():  # type: ignore[attr-defined]
        process.send(signal.SIGCONT)  # type: ignore[attr-defined]
