"""Approvals and votes: what deploys ask of people, and what was said.

What decides about a deploy is read and written under the lock of its row.
"""

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain import approval as rules_of
from manent_server.domain import awaiting
from manent_server.domain.access import ALL, Scope
from manent_server.domain.approval import Rule, Subject
from manent_server.domain.awaiting import Ask, Stage, Standing
from manent_server.domain.deploy import Phase
from manent_server.domain.gates import Asked
from manent_server.store import deploys, finding, votes
from manent_server.store.clean import clean
from manent_server.store.deploys import Deploy
from manent_server.store.sight import within
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction

WAITING = "waiting"
APPROVED = "approved"
REJECTED = "rejected"
EXPIRED = "expired"
VOID = "void"
ENDED = "ended"
STATES = (WAITING, APPROVED, REJECTED, EXPIRED, VOID, ENDED)


@dataclass(frozen=True)
class Approval:
    """One rule of one deploy, asked for one digest."""

    id: str
    deploy: str
    application: str
    environment: str
    rule: str
    position: int
    body: Mapping[str, Any]
    digest: str
    state: str
    asked_at: datetime
    expires_at: datetime | None
    reminded_at: datetime | None
    closed_at: datetime | None

    @property
    def asks(self) -> Rule:
        """The rule as it was frozen."""
        return rules_of.load([self.body])[0]


_NAMES = tuple(field.name for field in fields(Approval))


@cache
def _all(tables: Tables) -> sa.Select[Any]:
    return sa.select(*(tables.approvals.c[name] for name in _NAMES))


def ask(
    tx: Transaction, deploy: Deploy, rules: Sequence[Rule], *, digest: str, at: datetime
) -> list[Approval]:
    """Ask a deploy's rules for what has this digest."""
    rows = [
        Approval(
            id=secrets.token_hex(10),
            deploy=deploy.id,
            application=deploy.application,
            environment=deploy.environment,
            rule=rule.name,
            position=position,
            body=rules_of.dump([rule])[0],
            digest=digest,
            state=WAITING,
            asked_at=at,
            expires_at=at + rule.expires if rule.expires is not None else None,
            reminded_at=None,
            closed_at=None,
        )
        for position, rule in enumerate(rules)
    ]
    values = [clean({name: getattr(row, name) for name in _NAMES}) for row in rows]
    tx.connection.execute(tx.tables.approvals.insert(), values)
    return rows


def read(tx: Transaction, approval: str) -> Approval | None:
    """One by its id."""
    query = _all(tx.tables).where(tx.tables.approvals.c.id == approval)
    row = tx.connection.execute(query).one_or_none()
    return Approval(*row) if row else None


def beginning(tx: Transaction, text: str, *, sight: Scope) -> list[Approval]:
    """At most two in sight whose ids begin so; how many others do is not told."""
    a = tx.tables.approvals
    query = _all(tx.tables).where(a.c.id >= text, a.c.id < text + "g").order_by(a.c.id)
    query = within(query, sight, a.c.application, a.c.environment)
    return [Approval(*row) for row in tx.connection.execute(query.limit(2))]


def of_deploy(tx: Transaction, deploy: str) -> list[Approval]:
    """What a deploy has asked, the newest digest last."""
    rows = tx.connection.execute(_of_deploy(tx.tables), {"deploy": deploy})
    return [Approval(*row) for row in rows]


@cache
def _of_deploy(tables: Tables) -> sa.Select[Any]:
    a = tables.approvals
    query = _all(tables).where(a.c.deploy == sa.bindparam("deploy"))
    return query.order_by(a.c.asked_at, a.c.position)


@dataclass(frozen=True)
class Page:
    """Which approvals in sight, the newest first: those before a cursor."""

    application: str | None
    environment: str | None
    deploy: str | None
    state: str | None
    before: str | None
    limit: int
    sight: Scope = ALL


def page(tx: Transaction, wanted: Page) -> tuple[list[Approval], str | None]:
    """One page by (time, id), and the cursor of the next."""
    a = tx.tables.approvals
    query = within(_all(tx.tables), wanted.sight, a.c.application, a.c.environment)
    for name in ("application", "environment", "deploy", "state"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(a.c[name] == value)
    if wanted.before is not None:
        at, last = finding.read_cursor(wanted.before)
        # The first condition lets an index begin where the page does.
        is_later = sa.or_(a.c.asked_at < at, sa.and_(a.c.asked_at == at, a.c.id < last))
        query = query.where(a.c.asked_at <= at, is_later)
    query = query.order_by(a.c.asked_at.desc(), a.c.id.desc()).limit(wanted.limit + 1)
    found = [Approval(*row) for row in tx.connection.execute(query)]
    if len(found) <= wanted.limit:
        return found, None
    kept = found[: wanted.limit]
    return kept, finding.cursor(kept[-1].asked_at, kept[-1].id)


def standing_of(rows: Iterable[Approval], digest: str | None) -> list[Approval]:
    """Those that ask for what the deploy would bring now."""
    return [row for row in rows if row.digest == digest and row.state in (WAITING, APPROVED)]


def change(tx: Transaction, ids: Sequence[str], **values: Any) -> None:
    """Change rows whose deploy is locked."""
    a = tx.tables.approvals
    if ids:
        tx.connection.execute(sa.update(a).where(a.c.id.in_(ids)).values(**values))


def close(tx: Transaction, deploy: str, state: str, *, at: datetime) -> None:
    """Nothing is waited for any more: in whatever state they are, those that wait end so."""
    values = {"of_deploy": deploy, "state": state, "closed_at": at}
    tx.connection.execute(_closed(tx.tables), values)


@cache
def _closed(tables: Tables) -> sa.Update:
    a = tables.approvals
    return sa.update(a).where(a.c.deploy == sa.bindparam("of_deploy"), a.c.state == WAITING)


def subject(deploy: Deploy) -> Subject:
    """What is known of a deploy when its votes are counted."""
    requester = rules_of.load_requester(deploy.requester, deploy.requested_by)
    authors = tuple(str(change["author"]) for change in deploy.changes or ())
    return Subject(requester, tuple(dict.fromkeys(authors)))


def asked(tx: Transaction, deploy: Deploy) -> list[Ask]:
    """What a deploy asks now, each rule with what its votes come to by who is in force."""
    rows = standing_of(of_deploy(tx, deploy.id), deploy.approval_digest)
    return count(tx, deploy, rows)


def count(tx: Transaction, deploy: Deploy, rows: Sequence[Approval]) -> list[Ask]:
    """What the votes of these come to."""
    if not rows:
        return []
    said, known, about = votes.of(tx, [row.id for row in rows]), votes.people(tx), subject(deploy)
    return [
        Ask(
            id=row.id,
            rule=row.asks,
            asked_at=row.asked_at,
            expires_at=row.expires_at,
            verdict=rules_of.judge(row.asks, said.get(row.id, ()), about, known),
        )
        for row in rows
    ]


def standing(tx: Transaction, deploy: Deploy) -> Standing | None:
    """Where the approval of a deploy stands, its votes counted anew.

    What was given is given no more once a vote has lost its weight.
    """
    light = deploy.asked.approval
    kept = deploy.resolved or {}
    if light is None or light.stage == Stage.RESOLVING:
        trouble = kept.get("error")
        return light and replace(light, trouble=str(trouble["message"]) if trouble else None)
    asks = asked(tx, deploy)
    is_given = light.stage == Stage.GIVEN and bool(asks) and awaiting.is_met(asks)
    since = min((ask.asked_at for ask in asks), default=light.since)
    stage = Stage.GIVEN if is_given else Stage.ASKED
    changed = tuple(kept.get("changed") or ())
    return Standing(stage, deploy.approval_at, tuple(asks), since, changed=changed)


def counted(tx: Transaction, deploy: Deploy) -> Asked:
    """What the gates need to know of a deploy, its votes counted anew."""
    return replace(deploy.asked, approval=standing(tx, deploy))


def is_live(deploy: Deploy) -> bool:
    """Whether a deploy still takes votes: it waits, and has not begun."""
    return deploy.state in deploys.LIVE_STATES and deploy.handed_out_at is None


def unresolved(
    tx: Transaction, *, at: datetime, limit: int, without: Collection[str] = ()
) -> list[Deploy]:
    """Deploys of which it is to be found out now what they would bring."""
    values = {"now": at, "without": list(without), "most": limit}
    return [deploys.of(row) for row in tx.connection.execute(_unresolved(tx.tables), values)]


@cache
def _unresolved(tables: Tables) -> sa.Select[Any]:
    d, given = tables.deploys, sa.bindparam
    query = deploys.whole(tables).where(
        # As the partial index has it: the rows it holds are few.
        sa.text("approval = 'resolving' AND state = 'DELAYED'"),
        d.c.phase == Phase.RESOLVING,
        sa.or_(d.c.approval_at.is_(None), d.c.approval_at <= given("now")),
        d.c.id.not_in(given("without", expanding=True)),
    )
    return query.order_by(d.c.approval_at, d.c.id).limit(given("most"))
