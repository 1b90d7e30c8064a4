"""The sinks that are configured here: who is told what, and how often it is tried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from manent_server.domain import access, names
from manent_server.domain.access import Caller
from manent_server.domain.chat import SINK
from manent_server.domain.errors import NotAllowed, NotFound
from manent_server.domain.notice import PLUGINS, Interest, Retrying
from manent_server.observability.metrics import SinkStanding
from manent_server.store import events, notices, records
from manent_server.store.notices import Off, Standing
from manent_server.store.records import Deed
from manent_server.store.transaction import Store, Transaction
from manent_server.usecases import once, receivers, view
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import IdempotencyKey

_CARDS = Interest(("approval.*", "deploy.started", "deploy.ended"))
_HOOK = Retrying(timedelta(seconds=5), 2, timedelta(minutes=5), timedelta(hours=1))


@dataclass(frozen=True)
class Sink:
    """Somebody who is told; a `chat` hears only of deploys it shows, or is to show."""

    name: str
    plugin: str
    interest: Interest
    retrying: Retrying
    chat: str | None = None


def known(desk: Desk) -> Sequence[Sink]:
    """Every sink: those of `notify`, and the plugins if one of them listens."""
    found = [
        Sink(
            name,
            hook.plugin,
            Interest(hook.events, hook.applications, hook.environments),
            Retrying(hook.retry.initial, hook.retry.factor, hook.retry.cap, hook.retry.total),
        )
        for name, hook in desk.settings().notify.items()
    ]
    found += [
        Sink(f"{SINK}{name}", chat.plugin, _CARDS, _HOOK, chat=name)
        for name, chat in desk.settings().chat.items()
        if chat.url is not None
    ]
    if desk.host.listeners:
        found.append(Sink(PLUGINS, "deploy_event", Interest(("deploy.*",)), _HOOK))
    return found


def named(desk: Desk, name: str) -> Sink:
    """One sink.

    Raises:
        NotFound: None is configured under this name.
    """
    sinks = {sink.name: sink for sink in known(desk)}
    if name not in sinks:
        raise NotFound(
            f"there is no sink {name[:60]!r}",
            next=f"known: {', '.join(sorted(sinks)) or 'none, notify in manent.yml is empty'}",
        )
    return sinks[name]


def shown(desk: Desk) -> dict[str, Any]:
    """Every sink with what it has not been told.

    Raises:
        NotAllowed: Whoever asks does not see everything; sinks are told of everything.
    """
    if not desk.sight.is_everywhere:
        raise NotAllowed(
            "only who may read everywhere sees who is told",
            next="ask an administrator for the role viewer without a limit",
        )
    with desk.store.read() as tx:
        off, standings = notices.off(tx), notices.standings(tx)
        audited = receivers.shown(tx, desk)
    told = [_shown(one, off.get(one.name), standings.get(one.name)) for one in known(desk)]
    return {"items": [*told, *audited]}


def standings(desk: Desk) -> list[SinkStanding]:
    """For the metrics: how far behind each sink is."""
    with desk.store.read() as tx:
        found, at = notices.standings(tx), tx.now()
        # What has no position yet is nobody's notice, but everybody waits for it.
        since = events.unnumbered_since(tx)
    standings = []
    for sink in known(desk):
        one = found.get(sink.name)
        waits = [
            instant for instant in (since, one.oldest_at if one else None) if instant is not None
        ]
        lag = (at - min(waits)).total_seconds() if waits else 0.0
        standings.append(SinkStanding(sink.name, max(0.0, lag), one.dead if one else 0))
    return standings


def _shown(sink: Sink, off: Off | None, standing: Standing | None) -> dict[str, Any]:
    """A sink as JSON; its address may hold a token and is nobody's."""
    return {
        "name": sink.name,
        "plugin": sink.plugin,
        "events": list(sink.interest.events),
        "applications": list(sink.interest.applications),
        "environments": list(sink.interest.environments),
        "is_on": off is None,
        "off_at": view.instant(off.at) if off else None,
        "off_reason": off.reason if off else None,
        "waiting": standing.waiting if standing else 0,
        "dead": standing.dead if standing else 0,
        "oldest_at": view.instant(standing.oldest_at) if standing else None,
    }


def resend(
    desk: Desk,
    notice: str,
    *,
    reason: str | None = None,
    caller: Caller,
    key: IdempotencyKey | None = None,
) -> dict[str, Any]:
    """Send a dead notice again; its sink is turned on if it was off.

    Raises:
        NotFound: There is no such notice, or its sink is gone.
    """
    caller.demand(access.ADMINISTER)
    with desk.store.read() as tx:
        found = notices.read(tx, notice)
    if found is None:
        raise NotFound(f"there is no notice {notice[:60]!r}", next="GET /api/v1/notices lists them")
    sink = named(desk, found.sink)
    again = _Again(sink, caller, {"sink": sink.name, "notice": notice, "reason": reason})

    def work(tx: Transaction) -> str:
        known = once.remembered(tx, caller, key)
        if known is None:
            again.do(tx, id=notice)
            once.remember(tx, caller, key, notice)
        return notice

    once.run(desk.store, work)
    with desk.store.read() as tx:
        return view.notice(notices.read(tx, notice) or found)


def resend_all(
    desk: Desk,
    name: str,
    *,
    reason: str | None = None,
    caller: Caller,
    key: IdempotencyKey | None = None,
) -> dict[str, Any]:
    """Turn a sink on and send everything again that it was not told.

    Raises:
        NotFound: There is no such sink.
    """
    caller.demand(access.ADMINISTER)
    again = _Again(named(desk, name), caller, {"sink": name, "reason": reason})

    def work(tx: Transaction) -> str:
        known = once.remembered(tx, caller, key)
        if known is None:
            again.do(tx, sink=name)
            once.remember(tx, caller, key, name)
        return name

    once.run(desk.store, work)
    return next(one for one in shown(desk)["items"] if one["name"] == name)


@dataclass(frozen=True)
class _Again:
    """Dead notices of a sink are to be sent again, by somebody's word."""

    sink: Sink
    actor: Caller
    detail: Mapping[str, Any]

    def do(self, tx: Transaction, **which: str) -> None:
        at = tx.now()
        expires_at = at + self.sink.retrying.total
        revived = notices.revive(tx, at=at, expires_at=expires_at, **which)
        if revived:
            detail = {**self.detail, "count": revived}
            records.write_audit(tx, Deed(self.actor, "notice.resent", detail=detail), at=at)
        _turn_on(tx, self.sink.name, self.actor)


def _turn_on(tx: Transaction, name: str, actor: Caller | str) -> None:
    if notices.turn_on(tx, name):
        before, after = {"is_on": False}, {"is_on": True}
        deed = Deed(actor, "sink.on", detail={"sink": name}, before=before, after=after)
        records.write_audit(tx, deed, at=tx.now())


def turn_all_on(store: Store, *, by: str) -> None:
    """After a reload: whoever changed the configuration wants every sink to be told."""

    def work(tx: Transaction) -> None:
        for name in notices.off(tx):
            _turn_on(tx, name, by)

    store.once(work)


def listed(
    desk: Desk, *, state: str | None, sink: str | None, before: str | None, limit: int
) -> dict[str, Any]:
    """Notices, those of the newest events first.

    Raises:
        NotFound: No such sink is configured, and none was told anything under that name.
    """
    if sink is not None and not sink.startswith(SINK):
        sink = names.name(sink, "sink", known=[one.name for one in known(desk)])
    with desk.store.read() as tx:
        found, after = notices.page(tx, notices.Wanted(state, sink, before, limit, desk.sight))
    if sink is not None and not found:
        named(desk, sink)
    return view.page([view.notice(one) for one in found], after)
