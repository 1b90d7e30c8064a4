"""Observing outside of a run: what stands on the targets of deploys while nothing may begin.

Of all hooks only `observe` is called from here: it reads its target and changes nothing. Nothing
is recorded either: it is no attempt of the deploy.
"""

import logging
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

from manent_server.domain import effects
from manent_server.domain import order as orders
from manent_server.domain.errors import ManentError
from manent_server.engine import aim as aims
from manent_server.engine.aim import Place
from manent_server.observability.redaction import Redactor
from manent_server.plugins.host import Host
from manent_server.plugins.nursery import NoGuard
from manent_server.plugins.protocol import boottime
from manent_server.plugins.runner import HookCall, HookEnd, Runner
from manent_server.sources.secrets import Secrets
from manent_server.store.deploys import Deploy

_log = logging.getLogger(__name__)
MOST: Final = 100
"""So many targets are asked at most."""
AT_ONCE: Final = 8
_KILL_GRACE: Final = timedelta(seconds=1)
_SLACK: Final = 3.0
_LEAST: Final = 0.2
_TOO_MANY: Final = f"not asked: one list asks {MOST} targets; name this deploy to ask it"
_TOO_LATE: Final = "not asked: the time of one list was over; name this deploy to ask it"


@dataclass(frozen=True)
class Seen:
    """What `observe` says of one target; `why`: why it says nothing."""

    target: str
    version: str | None = None
    in_place: bool | None = None
    why: str | None = None


@dataclass(frozen=True)
class Limits:
    """How long one hook and all of them together may take."""

    each: timedelta = timedelta(seconds=10)
    all: timedelta = timedelta(seconds=25)


class Busy(Exception):
    """The targets are being asked already."""


@dataclass(frozen=True)
class _Question:
    """One target that can be asked."""

    place: Place
    context: dict[str, Any]
    timeout: timedelta


class Observer:
    """Asks targets what runs on them, in hook processes of its own, one list at a time.

    Args:
        host: The plugins of this process.
        secrets: Where secrets are.
        redactor: Told what must not be shown.
        runner: Makes what runs hooks, beside a folder.
        limits: How long it may take.
    """

    def __init__(
        self,
        host: Host,
        secrets: Secrets,
        redactor: Redactor,
        runner: Callable[[Path], Runner],
        limits: Limits | None = None,
    ) -> None:
        self._host = host
        self._secrets = secrets
        self._redactor = redactor
        self._runner = runner
        self._limits = limits or Limits()
        self._alone = threading.Lock()

    def observe(self, rows: Sequence[Deploy]) -> dict[str, list[Seen]]:
        """What is in place on every target of these deploys, by deploy.

        Raises:
            Busy: Somebody else's list is being asked.
        """
        if not self._alone.acquire(blocking=False):
            raise Busy
        try:
            asked = [(row.id, one) for row in rows for one in self._questions(row)]
            answers = self._answers([one for _, one in asked if isinstance(one, _Question)])
        finally:
            self._alone.release()
        found: dict[str, list[Seen]] = {row.id: [] for row in rows}
        for deploy, one in asked:
            found[deploy].append(answers[id(one)] if isinstance(one, _Question) else one)
        return found

    def _questions(self, row: Deploy) -> Iterator[_Question | Seen]:
        try:
            order = orders.load(row.order_body)
        except (KeyError, TypeError, ValueError):
            yield Seen("", why="its order cannot be read by this build")
            return
        for target in [name for wave in order.waves for name in wave]:
            yield self._question(Place(row, order, target))

    def _question(self, place: Place) -> _Question | Seen:
        name = place.order.plugin
        try:
            if effects.OBSERVE not in self._host.plugin(name).hooks:
                return Seen(place.target, why=f"the plugin {name} has no observe")
            context = self._context(place)
        except ManentError as error:
            return Seen(place.target, why=f"cannot be asked: {error.detail}")
        except Exception as error:  # noqa: BLE001 - logged whole; it hides none of the others
            _log.exception("%s of deploy %s cannot be asked", place.target, place.deploy.id)
            return Seen(place.target, why=f"cannot be asked: {type(error).__name__}")
        timeout = min(place.order.limits.timeout, self._limits.each)
        return _Question(place, context, timeout)

    def _context(self, place: Place) -> dict[str, Any]:
        """As a hook of its run is told, as far as that is known without running anything."""
        deploy, target = place.deploy, place.target
        prepared = deploy.prepared or {}
        configuration = dict(prepared.get("configuration") or {})
        options = aims.filled(self._host, place, version=deploy.version)
        options, values = self._secrets.fill(aims.configured(options, configuration))
        self._redactor.add(values)
        past = (prepared.get("past") or {}).get(target)
        return {
            "deploy": deploy.id,
            "kind": deploy.kind,
            "application": deploy.application,
            "environment": deploy.environment,
            "target": target,
            "options": options,
            "version": deploy.version,
            "from_version": past["version"] if past else None,
            "artifact": None,
            "configuration": configuration,
            "secrets": {},
            "previous": past and {"version": past["version"], "outputs": past["outputs"] or {}},
            "outputs": {},
            "idempotency_key": f"{deploy.root}/observe:{target}/{deploy.pass_number}",
            "attempt": 1,
            "epoch": deploy.epoch,
            "checkpoint": None,
            "completed": [],
        }

    def _answers(self, questions: Sequence[_Question]) -> dict[int, Seen]:
        """By the identity of each question."""
        found = {id(one): Seen(one.place.target, why=_TOO_MANY) for one in questions[MOST:]}
        if not questions:
            return found
        # What a hook has left behind may write there still: that takes no answer from anybody.
        made = tempfile.TemporaryDirectory(prefix="manent-observe-", ignore_cleanup_errors=True)
        with made as folder:
            runner = self._runner(Path(folder))
            try:
                runner.start()
                return found | self._asked(runner, Path(folder), questions[:MOST])
            except NoGuard as error:
                why = f"cannot be asked: {error}"
                return {id(one): Seen(one.place.target, why=why) for one in questions}
            finally:
                runner.close()

    def _asked(
        self, runner: Runner, folder: Path, questions: Sequence[_Question]
    ) -> dict[int, Seen]:
        until = time.monotonic() + self._limits.all.total_seconds()
        waiting: SimpleQueue[_Question] = SimpleQueue()
        found = {id(one): Seen(one.place.target, why=_TOO_LATE) for one in questions}
        for one in questions:
            waiting.put(one)

        def work() -> None:
            while (left := until - time.monotonic()) > _LEAST:
                try:
                    one = waiting.get_nowait()
                except Empty:
                    return
                timeout = min(one.timeout, timedelta(seconds=left))
                found[id(one)] = self._ask(runner, folder, one, timeout)

        # Daemons: a process that no signal ends must not keep anybody from his list.
        count = min(AT_ONCE, len(questions))
        threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, until + _SLACK - time.monotonic()))
        return dict(found)

    def _ask(self, runner: Runner, folder: Path, one: _Question, timeout: timedelta) -> Seen:
        attempt = f"observe{secrets.token_hex(12)}"
        workdir = folder / attempt
        workdir.mkdir()
        seconds = timeout.total_seconds()
        call = HookCall(
            attempt_id=attempt,
            plugin=one.place.order.plugin,
            hook=effects.OBSERVE,
            context=one.context | {"workdir": str(workdir)},
            timeout=timeout,
            kill_grace=_KILL_GRACE,
            lease_until=boottime() + seconds + _SLACK,
            lock_file=folder / f"{attempt}.lock",
        )
        with runner.place():
            end = runner.call(call)
        return self._seen(one.place.target, end, seconds)

    def _seen(self, target: str, end: HookEnd, seconds: float) -> Seen:
        if end.result == "timed_out":
            return Seen(target, why=f"observe gave no answer within {seconds:.0f} s")
        if end.result != "succeeded":
            error = self._redactor.redact_value(dict(end.error or {}))
            return Seen(target, why=f"observe {end.result}: {error.get('message', 'nothing said')}")
        outputs = self._redactor.redact_value(dict(end.outputs or {}))
        version, in_place = outputs.get("version"), effects.in_place(outputs)
        if version is None and in_place is None:
            return Seen(target, why="its plugin cannot tell")
        return Seen(target, version, in_place)
