"""Tokens: made, listed, revoked; who a token stands for."""

import hashlib
import secrets
import string
import zlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from manent_server.domain import access, names
from manent_server.domain.access import Caller, Grant
from manent_server.domain.errors import Invalid, NotFound, NotSignedIn, Unavailable
from manent_server.store import records
from manent_server.store import tokens as rows
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import view
from manent_server.usecases.desk import STARTING, Desk
from manent_server.usecases.requests import TokenRequest

_LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET = 43
_CHECK = 6
_PREFIX = "mnt_u_"
_SHOWN = 10
_LONGEST_GROUP = 255
# Names under which manent itself acts.
_RESERVED = frozenset({access.MANENT.name, access.PROMOTION})


def create(desk: Desk, request: TokenRequest, *, actor: str) -> str:
    """A new token; its text is shown this once and stored only as a digest."""
    values = _checked(request)
    text = mint()
    token = secrets.token_hex(8)

    def work(tx: Transaction) -> None:
        at = tx.now()
        if rows.read(tx, token) is not None:
            return
        rows.insert(
            tx,
            {
                **values,
                "id": token,
                "hash": digest(text),
                "shown": text[:_SHOWN],
                "created_by": actor,
                "created_at": at,
                "expires_at": None if request.expires_in is None else at + request.expires_in,
            },
        )
        detail = {"token": token, **values}
        records.write_audit(tx, Deed(actor, "token.created", detail=detail), at=at)

    desk.store.once(work)
    return text


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


def mint() -> str:
    """A token: 256 random bits and a checksum, so that scanners can be exact."""
    body = "".join(secrets.choice(_LETTERS) for _ in range(_SECRET))
    return _PREFIX + body + _checksum(body)


def _checksum(body: str) -> str:
    value = zlib.crc32(body.encode())
    digits = ""
    for _ in range(_CHECK):
        value, rest = divmod(value, len(_LETTERS))
        digits = _LETTERS[rest] + digits
    return digits


def digest(text: str) -> str:
    """What is stored of a token: random as it is, it needs no slow hash."""
    return hashlib.sha256(text.encode()).hexdigest()


def listing(desk: Desk) -> dict[str, Any]:
    """Every token, without its text."""
    with desk.store.read() as tx:
        return {"items": [view.token(row) for row in rows.everyone(tx)]}


def revoke(desk: Desk, token: str, *, actor: str) -> dict[str, Any]:
    """End a token at once."""

    def work(tx: Transaction) -> rows.Token:
        row = rows.read(tx, token)
        if row is None:
            raise NotFound(f"there is no token {token[:40]!r}", next="token list shows their ids")
        at = tx.now()
        rows.revoke(tx, token, at=at)
        detail = {"token": token, "name": row.name}
        records.write_audit(tx, Deed(actor, "token.revoked", detail=detail), at=at)
        return rows.read(tx, token) or row

    return view.token(desk.store.once(work))


def authenticate(desk: Desk, text: str) -> Caller:
    """Who a token stands for.

    Raises:
        Unavailable: The tables are not ready yet.
        NotSignedIn: It is unknown, expired or revoked; the answer does not say which.
    """
    if STARTING in desk.report().get("reasons", ()):
        raise Unavailable("the server is starting", next="ask again in a few seconds")
    body = text.removeprefix(_PREFIX)
    is_ours = text.startswith(_PREFIX) and text.isascii() and len(body) == _SECRET + _CHECK
    if is_ours and secrets.compare_digest(_checksum(body[:_SECRET]), body[_SECRET:]):
        with desk.store.read() as tx:
            row = rows.by_hash(tx, digest(text), at=tx.now())
        if row is not None:
            return _caller(row)
    raise NotSignedIn(
        "the token is not valid", next="ask an administrator for a token, or sign in again"
    )


def _caller(row: rows.Token) -> Caller:
    area = tuple(row.applications), tuple(row.environments)
    return Caller(
        row.name, (Grant(row.role, *area),), row.kind, groups=frozenset(row.groups), session=row.id
    )
