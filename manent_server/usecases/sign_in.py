"""Sign in: an identity token of a provider or of a CI job becomes a session of ours; sign out."""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import manent_server.domain.assertion as assertions
from manent_server.domain.access import GRANT, Caller
from manent_server.domain.assertion import AssertionRefused, Claims
from manent_server.domain.errors import Invalid, NotFound
from manent_server.settings.values import Access
from manent_server.sources import signature
from manent_server.sources.signature import Signed
from manent_server.store import records, sessions, tokens
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import link, view
from manent_server.usecases.authenticate import OIDC, TRUST, of_session
from manent_server.usecases.desk import Desk
from manent_server.usecases.mint import SESSION, digest, mint
from manent_server.usecases.requests import SignInRequest, Visit

OF_A_JOB: Final = timedelta(minutes=15)
"""How long a CI job is signed in: long enough to ask for a deploy; it may sign in again."""
_KEPT: Final = timedelta(days=2)
_FORGOTTEN_AT_ONCE: Final = 50


def providers(desk: Desk) -> dict[str, Any]:
    """Where people sign in."""
    return {
        "items": [
            {"name": name, "issuer": one.issuer, "client_id": one.client_id}
            for name, one in desk.settings().access.oidc.items()
        ]
    }


def sign_in(desk: Desk, request: SignInRequest, *, visit: Visit) -> dict[str, Any]:
    """A session for whoever holds an identity token; each token is good for one.

    Raises:
        NotSignedIn: The token is not believed, or nothing here trusts what it says.
        Invalid: Several trust rules would do, and none was chosen.
        Unavailable: The keys of its issuer cannot be had now.
    """
    known = desk.settings().access
    token = signature.take_apart(request.assertion)
    issuer = token.issuer
    trusted = {one.issuer for one in known.oidc.values()}
    trusted |= {one.issuer for one in known.trust.values()}
    if issuer not in trusted:
        raise AssertionRefused("nothing here trusts its issuer")
    claims = desk.issuers.believe(token, issuer)
    with desk.store.read() as tx:
        at = tx.now()
    proven = _chosen(_proven(known, claims, issuer, at), request.rule, claims, known)
    return _session(desk, token, proven, visit)


@dataclass(frozen=True)
class _Proven:
    """Who is signed in, by what, for how long."""

    source: str
    principal: str
    lasts: timedelta
    groups: tuple[str, ...] = ()
    actor: str | None = None


def _proven(known: Access, claims: Claims, issuer: str, at: datetime) -> list[_Proven]:
    """Everything the token proves here: a person, or a job by each rule it meets."""
    found = []
    people = known.oidc if assertions.of_job(claims) is None else {}
    for name, one in people.items():
        if one.issuer == issuer and assertions.is_made_for(claims, one.client_id):
            assertions.demand(claims, issuer=issuer, audience=one.client_id, at=at)
            groups = assertions.groups(claims, one.groups_claim)
            principal = f"{OIDC}{issuer}#{claims['sub']}"
            found.append(_Proven(f"{OIDC}{name}", principal, known.groups_max_age, groups))
    for name, rule in known.trust.items():
        if rule.issuer != issuer or not assertions.is_for(claims, rule.audience):
            continue
        assertions.demand(claims, issuer=issuer, audience=rule.audience, at=at)
        assertions.demand_no_pull_request(claims)
        if assertions.matches(claims, rule.claims):
            build = assertions.build(claims)
            actor = f"{build.system}:{build.actor}" if build.system and build.actor else None
            principal = f"{TRUST}{name}#{build.repository}"
            found.append(_Proven(f"{TRUST}{name}", principal, OF_A_JOB, actor=actor))
    return found


def _chosen(found: list[_Proven], rule: str | None, claims: Claims, known: Access) -> _Proven:
    if rule is not None:
        found = [one for one in found if one.source == f"{TRUST}{rule}"]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(one.source.partition(":")[2] for one in found)
        raise Invalid(
            f"several rules trust this token: {names}",
            code="trust_ambiguous",
            next="choose one of them: manent login --oidc --rule NAME",
        )
    audiences = {one.audience for one in known.trust.values()}
    audiences |= {one.client_id for one in known.oidc.values()}
    if not any(assertions.is_for(claims, audience) for audience in audiences):
        raise AssertionRefused("nothing here has its audience (aud)")
    raise AssertionRefused(f"no rule under access.trust trusts what it says{_of(claims, known)}")


def _of(claims: Claims, known: Access) -> str:
    """Why it is no person's either."""
    job = assertions.of_job(claims)
    if job is not None:
        return f"; it is of a job, by its claim {job}, and no person's"
    clients = [one.client_id for one in known.oidc.values()]
    is_anothers = any(assertions.is_for(claims, client) for client in clients)
    return "; no person's either: it was made for another client (azp)" if is_anothers else ""


def _session(desk: Desk, token: Signed, proven: _Proven, visit: Visit) -> dict[str, Any]:
    text, session = mint(SESSION), secrets.token_hex(8)
    # Of what is signed: the same token in another spelling is the same token.
    proof = hashlib.sha256(token.signed).hexdigest()

    def work(tx: Transaction) -> sessions.Session:
        at = tx.now()
        made = sessions.by_proof(tx, proof)
        if made is not None:
            if made.id != session:
                raise AssertionRefused("it was used before")
            return made  # the answer to an earlier COMMIT was lost
        sessions.forget(tx, before=at - _KEPT, limit=_FORGOTTEN_AT_ONCE)
        values = {
            "id": session,
            "hash": digest(text),
            "proof": proof,
            "source": proven.source,
            "principal": proven.principal,
            "groups": list(proven.groups),
            "actor": proven.actor,
            "created_at": at,
            "expires_at": at + proven.lasts,
        }
        if not sessions.insert(tx, values):
            raise AssertionRefused("it was used before")
        told = {"session": session, "source": proven.source, "actor": proven.actor}
        who = Caller(proven.principal, (), channel=visit.channel, address=visit.address)
        _record(tx, "session.created", who, told)
        return sessions.Session(
            session,
            proven.source,
            proven.principal,
            proven.groups,
            proven.actor,
            at,
            at + proven.lasts,
            None,
        )

    made = desk.store.once(work)
    caller = of_session(made, desk.settings().access, visit)
    if caller is None:
        raise AssertionRefused("nothing here trusts it any more")
    return _shown(caller, made) | {"token": text}


def _record(tx: Transaction, action: str, who: Caller, detail: Mapping[str, Any]) -> None:
    records.write_audit(tx, Deed(who, action, detail=detail), at=tx.now())


def whoami(desk: Desk, *, caller: Caller) -> dict[str, Any]:
    """Who the caller is here, and what it may."""
    with desk.store.read() as tx:
        token = tokens.read(tx, caller.session or "")
        session = None if token is not None else sessions.read(tx, caller.session or "")
    found = _shown(caller, session)
    return found | {"expires_at": view.instant(token.expires_at)} if token is not None else found


def _shown(caller: Caller, session: sessions.Session | None) -> dict[str, Any]:
    return {
        "name": caller.name,
        "kind": caller.kind,
        "login": caller.login,
        "acts_for": caller.acts_for,
        "groups": sorted(caller.groups),
        "grants": [
            {
                "role": grant.role,
                "applications": list(grant.applications),
                "environments": list(grant.environments),
                "deny": grant.deny,
            }
            for grant in caller.grants
        ],
        "source": session.source if session is not None else "token",
        "expires_at": view.instant(session.expires_at) if session is not None else None,
    }


def sign_out(desk: Desk, *, caller: Caller) -> dict[str, Any]:
    """End the caller's session at once.

    Raises:
        NotFound: It came with a token, which an administrator revokes.
    """

    def work(tx: Transaction) -> sessions.Session:
        row = sessions.read(tx, caller.session or "")
        if row is None:
            raise NotFound(
                f"{caller.name} is signed in by a token, not by a session",
                code="no_session",
                next="forget the token, or ask an administrator to revoke it",
            )
        if sessions.revoke(tx, row.id, at=tx.now()):
            _record(tx, "session.ended", caller, {"session": row.id})
        return row

    return _shown(caller, desk.store.once(work))


def live(desk: Desk, *, caller: Caller) -> dict[str, Any]:
    """Everybody who is signed in now."""
    caller.demand(GRANT)
    with desk.store.read() as tx:
        return {"items": [_listed(row) for row in sessions.live(tx, at=tx.now())]}


def end(desk: Desk, session: str, *, caller: Caller) -> dict[str, Any]:
    """End somebody's session at once.

    Raises:
        NotFound: There is none.
    """
    caller.demand(GRANT)

    def work(tx: Transaction) -> sessions.Session:
        row = sessions.read(tx, session)
        if row is None:
            raise NotFound(
                f"there is no session {session[:40]!r}", next="GET /api/v1/sessions lists them"
            )
        if sessions.revoke(tx, row.id, by=caller.name, at=tx.now()):
            link.drop(tx, row.id, caller=caller)
            told = {"session": row.id, "principal": row.principal}
            _record(tx, "session.revoked", caller, told)
        return row

    return _listed(desk.store.once(work))


def _listed(row: sessions.Session) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.principal,
        "source": row.source,
        "groups": list(row.groups),
        "created_at": view.instant(row.created_at),
        "expires_at": view.instant(row.expires_at),
    }


def newest_end(desk: Desk) -> str:
    """Changes whenever a token or session was revoked, or what anybody may was configured anew."""
    with desk.store.read() as tx:
        end = sessions.newest_end(tx)
    return f"{end} {desk.settings().digest}"
