"""Authenticate: whom the text of a token or a session stands for, and what it may by now."""

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Final

from manent_server.domain.access import Caller, Grant
from manent_server.domain.errors import NotSignedIn, Unavailable
from manent_server.settings.values import Access
from manent_server.store import sessions, tokens
from manent_server.store.sessions import Session
from manent_server.store.tokens import Token
from manent_server.store.transaction import Transaction
from manent_server.usecases.desk import STARTING, Desk
from manent_server.usecases.mint import SESSION, SHOWN, digest, kind_of
from manent_server.usecases.requests import Visit

USED_EVERY: Final = timedelta(minutes=10)
"""How exactly a token's last use is known: a use is written no more often."""
OIDC: Final = "oidc:"
TRUST: Final = "trust:"
_HERE: Final = Visit()
_log = logging.getLogger(__name__)


def authenticate(desk: Desk, text: str, *, visit: Visit = _HERE) -> Caller:
    """Who asks.

    What it may is looked up each time: a role that was changed, a rule that was taken out or a
    token that was revoked counts from the next request on.

    Raises:
        Unavailable: The tables are not ready yet.
        NotSignedIn: It is unknown, expired or revoked; the answer does not say which.
    """
    if STARTING in desk.report().get("reasons", ()):
        raise Unavailable("the server is starting", next="ask again in a few seconds")
    kind = kind_of(text)
    found: Caller | None = None
    if kind == SESSION:
        found = _by_session(desk, text, visit)
    elif kind is not None:
        found = _by_token(desk, text, visit)
    if found is None:
        raise _refusal(desk, text, kind)
    return found


def _by_session(desk: Desk, text: str, visit: Visit) -> Caller | None:
    with desk.store.read() as tx:
        row = sessions.by_hash(tx, digest(text), at=tx.now())
    return of_session(row, desk.settings().access, visit) if row is not None else None


def _by_token(desk: Desk, text: str, visit: Visit) -> Caller | None:
    with desk.store.read() as tx:
        row = tokens.by_hash(tx, digest(text))
        if row is None:
            return None
        at = tx.now()
    found = of_token(row, desk.settings().access, visit)
    if row.last_used_at is None or at - row.last_used_at >= USED_EVERY:
        _note_use(desk, found)
    return found


def of_token(row: Token, known: Access, visit: Visit) -> Caller:
    """The caller behind a token: its own role, less what its groups are denied."""
    login = known.login_of(row.name)
    groups = frozenset(row.groups) | _groups(known, login)
    own = Grant(row.role, tuple(row.applications), tuple(row.environments))
    denied = [grant for grant in granted(known, groups) if grant.deny]
    return Caller(
        row.name,
        (own, *denied),
        row.kind,
        login=login,
        groups=groups,
        channel=visit.channel,
        address=visit.address,
        session=row.id,
    )


def of_session(row: Session, known: Access, visit: Visit) -> Caller | None:
    """The caller behind a sign-in; None where its provider or rule is not configured any more."""
    found = _person(row, known) if row.source.startswith(OIDC) else _program(row, known)
    if found is None:
        return None
    return replace(found, channel=visit.channel, address=visit.address, session=row.id)


def _person(row: Session, known: Access) -> Caller | None:
    provider = known.oidc.get(row.source.removeprefix(OIDC))
    if provider is None or not row.principal.startswith(f"{OIDC}{provider.issuer}#"):
        return None
    login = known.login_of(row.principal)
    groups = frozenset(row.groups) | _groups(known, login)
    return Caller(row.principal, granted(known, groups), "person", login=login, groups=groups)


def _program(row: Session, known: Access) -> Caller | None:
    rule = known.trust.get(row.source.removeprefix(TRUST))
    if rule is None:
        return None
    grant = Grant(rule.role, rule.applications, rule.environments)
    system, _, id_there = (row.actor or "").partition(":")
    acts_for = known.login_at(system, id_there) if id_there else None
    return Caller(row.principal, (grant,), login=known.login_of(row.principal), acts_for=acts_for)


def granted(known: Access, groups: frozenset[str]) -> tuple[Grant, ...]:
    """What the groups may together."""
    return tuple(grant for group in sorted(groups) for grant in known.roles.get(group, ()))


def _groups(known: Access, login: str | None) -> frozenset[str]:
    person = known.people.get(login) if login is not None else None
    return frozenset(person.groups) if person is not None else frozenset()


def _note_use(desk: Desk, caller: Caller) -> None:
    """Write that it was used; a request that could be answered is not refused for it."""

    def work(tx: Transaction) -> None:
        tokens.touch(tx, caller.session or "", at=tx.now(), address=caller.address)

    try:
        desk.store.repeat(work, patience=timedelta(0))
    except Unavailable:
        _log.info("the last use of a token of %s could not be written", caller.name)


def _refusal(desk: Desk, text: str, kind: str | None) -> NotSignedIn:
    """The answer says not why; the record does, and of a token that was good once whose it was."""
    error = NotSignedIn(
        "the token is not valid", next="ask an administrator for a token, or sign in again"
    )
    told = {"reason": "unknown token"}
    if kind is not None:
        told["shown"] = text[:SHOWN]
        with desk.store.read() as tx:
            row = None if kind == SESSION else tokens.ended(tx, digest(text))
        if row is not None:
            words = "revoked token" if row.revoked_at is not None else "expired token"
            told |= {"reason": words, "token": row.id, "name": row.name}
    error.told = told
    return error
