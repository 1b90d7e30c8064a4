"""Checks of an installation that its database answers; none of them changes anything."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from manent_server.domain import checkup
from manent_server.domain.checkup import Finding, Level
from manent_server.domain.deploy import State
from manent_server.engine import inspection
from manent_server.engine.dispatch import workflow_id
from manent_server.store import deploys, examination, installation, notices, records, workers
from manent_server.store import policy as rows_of_policy
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.store.workers import Executor
from manent_server.usecases import executors, policy, put_back, receivers, sinks
from manent_server.usecases.desk import Desk


def clock(desk: Desk, wall: Callable[[], float]) -> Finding:
    """How far the database's clock is from this machine's.

    Args:
        desk: Where.
        wall: This machine's clock, in seconds since 1970.
    """
    with desk.store.read() as tx:
        tx.now()  # so that the time to connect is not measured
        before = wall()
        at = tx.now()
        after = wall()
    difference = timedelta(seconds=at.timestamp() - (before + after) / 2)
    return checkup.clock(difference, unsure=timedelta(seconds=(after - before) / 2))


def restored(desk: Desk) -> Finding:
    """Whether the database has gone back in time and waits for an operator."""
    with desk.store.read() as tx:
        row = installation.read(tx)
    if row is None:
        return checkup.warn(
            "no server has worked on this database yet", "start one: manent-server serve"
        )
    if row.is_fenced:
        return checkup.fail(row.words, "decide: manent-server admin restore list")
    return checkup.good("the database has not gone back in time")


@dataclass(frozen=True)
class Rota:
    """The leases that are to be held: how long each may be nobody's between two rounds.

    Attributes:
        everywhere: Those any `serve` process may hold.
        of_workers: Those only a process with a worker does.
        lasts: How long a lease lasts.
    """

    everywhere: Mapping[str, timedelta]
    of_workers: Mapping[str, timedelta]
    lasts: timedelta


def leases(desk: Desk, rota: Rota) -> Finding:
    """Whether each loop is somebody's who lives."""
    with desk.store.read() as tx:
        if _is_fenced(tx):
            return checkup.good("none is held while the database is fenced")
        at = tx.now()
        rows = examination.leases(tx)
        crew = workers.everyone(tx)
        lost = {row.id for row in crew if not executors.is_alive(desk, row, tx)}
    # Without a worker nobody can hold those of workers: that is a finding of its own.
    has_workers = any(row.id not in lost for row in crew)
    expected = {**rota.everywhere, **(rota.of_workers if has_workers else {})}
    return checkup.leases(rows, expected, lost, at=at, lasts=rota.lasts)


def _is_fenced(tx: Transaction) -> bool:
    row = installation.read(tx)
    return row is not None and row.is_fenced


def crew(desk: Desk) -> Finding:
    """Whether every configured pool has a live worker with the plugins it needs."""
    settings = desk.settings()
    needed: dict[str, set[str]] = {}
    for application in settings.applications.values():
        for name, placement in application.environments.items():
            pool = settings.environments[name].pool
            needed.setdefault(pool, set()).add(placement.plugin)
    with desk.store.read() as tx:
        alive = _alive(tx, desk)
    for pool, plugins in sorted(needed.items()):
        there = [worker for worker in alive if pool in worker.pools]
        if not there:
            return checkup.warn(
                f"no live worker takes deploys of pool {pool}",
                "start one: manent-server serve (worker.pools)",
            )
        lacking = sorted(plugins - {plugin for worker in there for plugin in worker.plugins})
        if lacking:
            return checkup.fail(
                f"no live worker of pool {pool} has the plugin {', '.join(lacking)}",
                "install it beside the workers of this pool and restart them",
            )
    return checkup.good(f"{len(alive)} live workers, each pool has what it needs")


def configuration(desk: Desk) -> Finding:
    """Whether all live processes and the rows in force have this configuration."""
    settings = desk.settings()
    with desk.store.read() as tx:
        alive = _alive(tx, desk)
        current = rows_of_policy.current(tx)
    other = sorted(worker.id for worker in alive if worker.configuration != settings.digest)
    if other:
        return checkup.warn(
            f"{', '.join(other)} have another configuration than {settings.path}",
            "give every process the same files, then: manent-server admin reload, or restart them",
        )
    if current is not None and current.digest != policy.digest(settings):
        return checkup.warn(
            f"the policy in force is not that of {settings.path} (written by {current.written_by})",
            "where a server has the right files: manent-server admin reload",
        )
    return checkup.good("every live worker has this configuration")


def stranded(desk: Desk) -> Finding:
    """Whether some deploy waits for somebody who will not come."""
    with desk.store.read() as tx:
        rows = [row for row in deploys.live(tx) if row.state != State.DELAYED]
        runs = put_back.running_versions(tx, desk, None, tx.now())
        alive = _alive(tx, desk)
        found = [(row, _stranded(tx, desk, row, runs, alive)) for row in rows]
        waiting = [row for row, one in found if one is None and _is_dispatched(tx, row)]
    findings = [one for _, one in found if one is not None]
    findings += _unknown_to_the_engine(desk, waiting)
    gravest = checkup.worst(findings)
    if gravest is None:
        return checkup.good(f"each of {len(rows)} deploys that run or queue has somebody")
    more = len(findings) - 1
    words = gravest.words + (f" (and {more} more)" if more else "")
    return Finding(gravest.level, words, gravest.next)


def _stranded(
    tx: Transaction,
    desk: Desk,
    row: Deploy,
    runs: Mapping[str, frozenset[str]],
    alive: Iterable[Executor],
) -> Finding | None:
    if row.open_question is not None:
        return None  # it waits for a person's answer, and says so
    named = f"{row.application} in {row.environment} ({row.id})"
    obstacle = put_back.obstacle(row, runs) or _lacks_plugin(row, alive)
    if row.executor is not None:
        return _left(tx, desk, row, obstacle) if executors.is_abandoned(tx, desk, row) else None
    if obstacle is None:
        return None
    return checkup.fail(
        f"{named} waits: {obstacle}",
        f"start such a worker; manent explain {row.id} says more",
    )


def _left(tx: Transaction, desk: Desk, row: Deploy, obstacle: str | None) -> Finding:
    words = f"{row.application} in {row.environment} ({row.id}) is {row.state} on {row.executor}"
    words += ", which is lost"
    if obstacle is not None:
        return checkup.fail(f"{words}; {obstacle}", "start such a worker")
    if desk.settings().recovery.auto_recover_after:
        return checkup.warn(words, "nothing: it is taken over; look again in a minute")
    return checkup.fail(
        words,
        f"start {row.executor} again, or: manent-server admin recover --executor {row.executor}",
    )


def _lacks_plugin(row: Deploy, alive: Iterable[Executor]) -> str | None:
    plugin = row.order_body.get("plugin")
    there = [worker for worker in alive if row.pool in worker.pools]
    if plugin is None or any(plugin in worker.plugins for worker in there):
        return None
    return f"no live worker of pool {row.pool} has the plugin {plugin}"


def _is_dispatched(tx: Transaction, row: Deploy) -> bool:
    if row.executor is not None or row.open_question is not None or row.dispatch == 0:
        return False
    return row.phase == "dispatched" and records.wake_of(tx, row.id) is None


def _unknown_to_the_engine(desk: Desk, rows: list[Deploy]) -> list[Finding]:
    """Dispatches the engine does not have, or has ended: the reconciler begins them anew."""
    wanted = {workflow_id(row.id, row.dispatch): row for row in rows}
    there = inspection.deliveries(desk.dispatcher.client, list(wanted))
    return [
        checkup.warn(
            f"the engine has no dispatch for {row.id}, which waits for one",
            "nothing: the reconciler dispatches it anew; look again in a minute",
        )
        for name, row in wanted.items()
        if name not in there or there[name].is_over
    ]


def told(desk: Desk) -> Finding:
    """Whether the sinks of notices hear what happens."""
    with desk.store.read() as tx:
        off = notices.off(tx)
        untold = sinks.standings(desk)
    findings = [
        checkup.fail(
            f"{name} is turned off: {off[name].reason}",
            "see to the receiver, then: manent-server admin reload",
        )
        for name in sorted(off.keys() & {one.sink for one in untold})
    ]
    findings += [checkup.lag(one.sink, one.lag_seconds, one.dead) for one in untold]
    return _gravest(findings, f"{len(untold)} sinks are told")


def record(desk: Desk) -> Finding:
    """Whether the record is chained, and its receivers get it."""
    with desk.store.read() as tx:
        notes = receivers.notes(tx, desk)
    findings = [
        checkup.fail(words, "see to the receiver: nothing is lost so far") for words in notes
    ]
    seconds = receivers.unchained(desk)
    if seconds > checkup.LAG.total_seconds():
        findings.append(
            checkup.fail(
                f"records of the last {seconds:.0f} s have no number yet",
                "look for the lease `audit` and into the log of the server that holds it",
            )
        )
    findings += [checkup.lag(one.sink, one.lag_seconds, 0) for one in receivers.metrics(desk)]
    return _gravest(findings, "the record is chained and handed on")


def engine(desk: Desk) -> Finding:
    """Whether the tables of the execution library answer."""
    inspection.deliveries(desk.dispatcher.client, ["-"])
    return checkup.good("the execution library answers")


def _gravest(findings: Iterable[Finding], words: str) -> Finding:
    found = checkup.worst(findings)
    return found if found is not None and found.level != Level.OK else checkup.good(words)


def _alive(tx: Transaction, desk: Desk) -> list[Executor]:
    return workers.alive(tx, stale_after=desk.settings().recovery.stale_after, at=tx.now())
