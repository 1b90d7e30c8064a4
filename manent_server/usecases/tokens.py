"""Tokens: made, listed, revoked."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from manent_server.domain import access, names
from manent_server.domain.access import Caller, Grant
from manent_server.domain.errors import Invalid, NotFound
from manent_server.store import records
from manent_server.store import tokens as rows
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import link, once, view
from manent_server.usecases.desk import Desk
from manent_server.usecases.mint import SERVICE, SHOWN, USER, digest, mint
from manent_server.usecases.requests import IdempotencyKey, TokenRequest

_LONGEST_GROUP = 255
# Names under which manent itself acts.
_RESERVED = frozenset({access.MANENT.name, access.PROMOTION})


def create(
    desk: Desk, request: TokenRequest, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """A new token; its text, in `token`, is shown this once and stored only as a digest.

    Several may share a name: a new one is made before the old one is revoked. Repeated with its
    key it answers with the same token, without the text.

    Raises:
        Invalid: There can be no such token.
        NotAllowed: The caller may not let anybody in, or is denied there what it would give.
    """
    caller.demand(access.GRANT)
    values = _checked(request)
    caller.demand_givable(
        Grant(request.role, tuple(values["applications"]), tuple(values["environments"]))
    )
    text = mint(USER if request.kind == access.PERSON else SERVICE)
    token = secrets.token_hex(8)

    def work(tx: Transaction) -> str:
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        at = tx.now()
        if rows.read(tx, token) is None:  # else the answer to an earlier COMMIT was lost
            made = {
                "id": token,
                "hash": digest(text),
                "shown": text[:SHOWN],
                "created_by": caller.name,
                "created_at": at,
                "expires_at": None if request.expires_in is None else at + request.expires_in,
            }
            rows.insert(tx, values | made)
            _record(tx, caller, "token.created", {"token": token, **values})
        once.remember(tx, caller, key, token)
        return token

    made = once.run(desk.store, work)
    with desk.store.read() as tx:
        row = rows.read(tx, made)
    if row is None:
        raise NotFound(f"the token {made} is gone", next="make a new one")
    return view.token(row) | {"token": text if made == token else None}


def _record(tx: Transaction, caller: Caller, action: str, detail: Mapping[str, Any]) -> None:
    records.write_audit(tx, Deed(caller, action, detail=detail), at=tx.now())


def _checked(request: TokenRequest) -> dict[str, Any]:
    name = names.name(request.name, "name of a token")
    if name in _RESERVED:
        raise Invalid(f"{name} is what manent calls itself", next="choose another name")
    if request.expires_in is not None and request.expires_in <= timedelta(0):
        raise Invalid("a token that ends at once is of no use", next="name a time such as 90d")
    if request.role not in access.ROLES:
        known = ", ".join(access.ROLES)
        raise Invalid(f"there is no role {request.role!r}", next=f"known: {known}")
    if request.kind not in (access.PERSON, access.SERVICE):
        raise Invalid(f"{request.kind!r} is no kind of caller", next="use person or service")
    return {
        "name": name,
        "role": request.role,
        "kind": request.kind,
        "groups": sorted({_group(one) for one in request.groups}),
        "applications": list(_patterns(request.applications)),
        "environments": list(_patterns(request.environments)),
    }


def _patterns(texts: Sequence[str]) -> tuple[str, ...]:
    try:
        return access.patterns(texts)
    except ValueError as error:
        raise Invalid(str(error), next="write a name; * and ? stand for any characters") from error


def _group(text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > _LONGEST_GROUP:
        raise Invalid(f"{text[:40]!r} is no name of a group", next="write one line of text")
    return text.strip()


def listing(desk: Desk, *, caller: Caller) -> dict[str, Any]:
    """Every token, without its text."""
    caller.demand(access.GRANT)
    with desk.store.read() as tx:
        return {"items": [view.token(row) for row in rows.everyone(tx)]}


def revoke(desk: Desk, token: str, *, caller: Caller) -> dict[str, Any]:
    """End a token at once.

    Raises:
        NotFound: There is none.
    """
    caller.demand(access.GRANT)

    def work(tx: Transaction) -> rows.Token:
        row = rows.read(tx, token)
        if row is None:
            raise NotFound(f"there is no token {token[:40]!r}", next="token list shows their ids")
        if row.revoked_at is None:
            rows.revoke(tx, token, at=tx.now())
            link.drop(tx, token, caller=caller)
            _record(tx, caller, "token.revoked", {"token": token, "name": row.name})
        return rows.read(tx, token) or row

    return view.token(desk.store.once(work))
