"""Auto promote: take up what the promotion rule of an environment lets through.

Nothing is accepted before every gate is open, so nothing piles up behind a hold or a window: when
they open, what is newest then goes. A version is taken up once, never one that was rolled back
from there, never one that was proven before what is live there now.
"""

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from manent_server.domain import access, approval, gates, promotion
from manent_server.domain.errors import Conflict
from manent_server.domain.gates import Facts
from manent_server.domain.promotion import Evidence, Run
from manent_server.settings.values import Environment
from manent_server.store import deploys, facts, history, marks, records
from manent_server.store.records import Stock
from manent_server.store.transaction import Transaction
from manent_server.usecases import submit
from manent_server.usecases.accept import Draft, asked_of, demand_environment
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import DeployRequest

ORIGIN = "promotion"
_log = logging.getLogger(__name__)


@dataclass
class AutoPromotion:
    """Rounds of one process; a place is looked at when something there changed or is ripe."""

    desk: Desk
    _seen: dict[tuple[str, str], Hashable] = field(default_factory=dict)
    _ripe: dict[tuple[str, str], datetime] = field(default_factory=dict)

    def round(self) -> None:
        """Take up what qualifies now."""
        settings = self.desk.settings()
        bound = [one for one in settings.environments.values() if _is_automatic(one)]
        if not bound:
            return
        with self.desk.store.read() as tx:
            at = tx.now()
            stock = records.inventory(tx)
            binding = frozenset(one.id for one in marks.standing(tx, at=at) if one.binds(at=at))
        for environment in bound:
            for name, application in settings.applications.items():
                if environment.name in application.environments:
                    sight = (_sight(stock, name, environment), binding, settings.digest)
                    self._look(name, environment, sight, at)

    def _look(
        self, application: str, environment: Environment, sight: Hashable, at: datetime
    ) -> None:
        place = (application, environment.name)
        ripe = self._ripe.get(place)
        is_open = not environment.rules.windows
        if self._seen.get(place) == sight and is_open and (ripe is None or ripe > at):
            return
        try:
            ripe = _take_up(self.desk, application, environment)
        except Conflict as refusal:
            _log.info("%s is not promoted to %s: %s", application, environment.name, refusal.detail)
            ripe = None
        self._seen[place] = sight
        self._ripe.pop(place, None)
        if ripe is not None:
            self._ripe[place] = ripe


def _is_automatic(environment: Environment) -> bool:
    return environment.rules.auto_promote and environment.rules.promotion is not None


def _sight(stock: Sequence[Stock], application: str, environment: Environment) -> Hashable:
    rule = environment.rules.promotion
    places = {environment.name, *(rule.sources if rule is not None else ())}
    return tuple(
        (row.environment, row.target, row.version, row.sha256, row.deploy, row.state)
        for row in stock
        if row.application == application and row.environment in places
    )


def _take_up(desk: Desk, application: str, environment: Environment) -> datetime | None:
    """Accept the newest version that qualifies; when the next one may, if time alone is missing."""
    wanted = DeployRequest(application, environment.name, "0", origin=ORIGIN)
    draft = submit.drafted(desk, wanted, access.promotion(application))
    return desk.store.once(partial(_decide, desk=desk, draft=draft))


def _decide(tx: Transaction, *, desk: Desk, draft: Draft) -> datetime | None:
    demand_environment(tx, draft)
    if deploys.read(tx, draft.id) is not None:
        return None  # the answer to an earlier COMMIT was lost
    at = tx.now()
    place = facts.read(tx, draft.environment.name, [asked_of(draft, at)])
    found = _evidence(draft, place)
    ripe = [one for one in found if one.ripe_at is not None and one.ripe_at <= at]
    newest = max((one.run for one in ripe if one.run), key=_age, default=None)
    if newest is not None and _is_due(tx, draft, newest):
        artifact = newest.sha256 if draft.order.artifact is not None else None
        ready = replace(
            draft,
            version=newest.version,
            sha256=artifact,
            promoted_from=newest.deploy,
            reason=f"runs in {newest.environment} since {newest.since.isoformat()}",
            acts_for=_behind(tx, newest.deploy),
        )
        closed = gates.closed(asked_of(ready, at), place)
        # Nobody can approve what was not asked for yet: it waits for that afterwards.
        if all(gate.gate == gates.APPROVAL for gate in closed):
            submit.enter(tx, desk, ready)
    waiting = [one.ripe_at for one in found if one.ripe_at is not None and one.ripe_at > at]
    return min(waiting, default=None)


def _behind(tx: Transaction, deploy: str) -> str | None:
    """Who asked for what is taken up: no approver of what automation brings further for them."""
    row = deploys.read(tx, deploy)
    if row is None:
        return None
    asked = approval.load_requester(row.requester, row.requested_by)
    return asked.acts_for or asked.login


def _evidence(draft: Draft, place: Facts) -> list[Evidence]:
    """What the rule says of each version that runs where it looks."""
    rule = draft.order.promotion
    runs = place.runs.get(draft.application, ())
    if rule is None:
        return []
    found = [
        promotion.judge(rule, runs, version=version, sha256=None, at=place.at)
        for version in dict.fromkeys(run.version for run in runs)
    ]
    return [one for one in found if not one.missing]


def _age(run: Run) -> tuple[datetime, str]:
    return run.since, run.deploy


def _is_due(tx: Transaction, draft: Draft, run: Run) -> bool:
    """Whether the version is new there: to automation, and to what people decided."""
    where = (draft.application, draft.environment.name)
    live = deploys.last_good(tx, *where)
    if live is not None and (live.version == run.version or run.since <= _decided(tx, live)):
        return False
    if history.was_taken_up(tx, *where, version=run.version, origin=ORIGIN):
        return False
    return history.rolled_back_from(tx, *where, run.version) is None


def _decided(tx: Transaction, live: deploys.Deploy) -> datetime:
    """From when on a version has to be proven to come after what is live."""
    source = deploys.read(tx, live.promoted_from) if live.promoted_from is not None else None
    return (source.ended_at if source is not None else None) or live.requested_at
