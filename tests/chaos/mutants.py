"""Mutations of the product, each of which takes one of its guarantees away.

A mutation replaces a few functions in a process of the tests; the product knows nothing of it.
In a process of its own `site/sitecustomize.py` applies it at the start.
"""

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

Patch = tuple[Any, str, Any]
Mutation = Callable[[], Iterator[Patch]]


def _module(name: str) -> Any:
    return importlib.import_module(f"manent_server.{name}")


def no_epoch_check() -> Iterator[Patch]:
    """Hand-out and end of an attempt ask for a live deploy of this worker, not for the epoch."""

    def is_current(row: Any, held: Any) -> bool:
        return row.state == "PENDING" and row.incarnation == held.incarnation

    yield _module("engine.handout"), "is_current", is_current


def no_slot_key() -> Iterator[Patch]:
    """A place is a row without a key: nothing but good manners keeps two from having one."""

    def take_slot(tx: Any, row: Any, *, place: int, at: Any) -> None:
        values = {
            "environment": row.environment, "application": f"{row.application} {row.id}",
            "place": place + row.number * 1000, "deploy": row.id, "taken_at": at,
        }  # fmt: skip
        tx.connection.execute(sa.insert(tx.tables.slots).values(**values))

    yield _module("store.queue"), "take_slot", take_slot


def no_attempt_lease() -> Iterator[Patch]:
    """The guard is told no end: a hook lives on while its worker cannot be heard."""
    runner = _module("plugins.runner").Runner
    order = runner._order

    yield runner, "_order", lambda self, call: order(self, replace(call, lease_until=None))
    yield runner, "extend", lambda *_: None


def lease_from_the_answer() -> Iterator[Patch]:
    """A lease is counted from the answer to the heartbeat, which may have been long under way."""
    heartbeat = _module("recovery.heartbeat")
    hold = heartbeat.Heartbeat._hold
    yield heartbeat.Heartbeat, "_hold", lambda self, _: hold(self, heartbeat.boottime())


def no_standing_put_back() -> Iterator[Patch]:
    """A claim is done once it is made: what turns up under it later stays there."""
    reconciler = _module("recovery.reconcile").Reconciler
    reason = reconciler._reason_of_loss

    def once(self: Any, row: Any, owner: Any) -> Any:
        is_claimed = owner is not None and owner.recovered_by is not None
        return None if is_claimed else reason(self, row, owner)

    yield reconciler, "_reason_of_loss", once


def no_look_at_earlier_attempts() -> Iterator[Patch]:
    """The hand-out does not ask whether somebody else may still be at work there."""
    yield _module("store.work"), "others", lambda *_, **__: []


def term_at_lease_end() -> Iterator[Patch]:
    """At the end of the lease the hook is asked to end, and killed when its grace is over."""
    watch = _module("plugins.watch").Watch
    kill = watch._kill

    def politely(self: Any, code: str, message: str) -> None:
        if code == "lease_ended":
            self._stop("interrupted", self._call.grace)
        else:
            kill(self, code, message)

    yield watch, "_kill", politely


def guard_death_is_exit() -> Iterator[Patch]:
    """A guard whose pipe ends is taken for one that said that all is dead."""
    runner = _module("plugins.runner")
    lost = runner._guard_lost

    yield runner, "_guard_lost", lambda: replace(lost(), is_dead=True)


def dispatch_of_the_ended() -> Iterator[Patch]:
    """A dispatch does not look whether the deploy has ended."""
    dispatcher = _module("engine.dispatch").Dispatcher

    def dispatch(self: Any, tx: Any, deploy: str, **more: Any) -> int:
        d = tx.tables.deploys
        state = str(more.get("state", "ENQUEUED"))
        values = {"state": state, "dispatch": d.c.dispatch + 1, "executor": None}
        change = sa.update(d).where(d.c.id == deploy).values(**values).returning(d.c.dispatch)
        return int(tx.connection.execute(change).scalar_one())

    yield dispatcher, "dispatch", dispatch


def no_word_on_an_instant() -> Iterator[Patch]:
    """What became of an instant is not written down: nothing keeps it from coming again."""
    yield _module("store.schedules"), "write_runs", lambda *_: None


MUTATIONS: dict[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        no_epoch_check,
        no_slot_key,
        no_attempt_lease,
        lease_from_the_answer,
        no_standing_put_back,
        no_look_at_earlier_attempts,
        term_at_lease_end,
        guard_death_is_exit,
        dispatch_of_the_ended,
        no_word_on_an_instant,
    )
}


def apply(name: str) -> None:
    """Make a mutant of this process, and of those it starts by exec, for good."""
    for where, attribute, value in [*MUTATIONS[name](), *_inherited(name)]:
        setattr(where, attribute, value)


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Make a mutant of this process for a while; its zygotes inherit it."""
    patches = [*MUTATIONS[name](), *_inherited(name)]
    before = [(where, attribute, getattr(where, attribute)) for where, attribute, _ in patches]
    try:
        for where, attribute, value in patches:
            setattr(where, attribute, value)
        yield
    finally:
        for where, attribute, value in before:
            setattr(where, attribute, value)


def _inherited(name: str) -> Iterator[Patch]:
    """The zygote gets a clean environment: it has to be told, so that guards are mutants too."""
    nursery, launch = _module("plugins.nursery"), _module("plugins.launch")
    home, bare = nursery._home, launch.bare_environment
    site = str(Path(__file__).with_name("site"))
    yield nursery, "_home", lambda: os.pathsep.join([site, home()])
    yield launch, "bare_environment", lambda: {**bare(), "CHAOS_MUTANT": name}
