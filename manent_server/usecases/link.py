"""Link: an account of a chat becomes a person's, by a code the chat gave and their sign-in."""

import hashlib
import secrets
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.domain.errors import Conflict, NotAllowed, NotFound, NotSignedIn
from manent_server.store import chats, records, sessions, tokens
from manent_server.store.chats import Link
from manent_server.store.records import Deed
from manent_server.store.transaction import Store, Transaction
from manent_server.usecases import once
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import IdempotencyKey

LASTS: Final = timedelta(minutes=10)
"""How long a code is good."""
# Without those that look alike; 12 of them are 58 random bits.
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
_LENGTH: Final = 12


def give(store: Store, chat: str, account: str) -> str:
    """A code for an account that is nobody's yet; an earlier one is void."""
    code = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))

    def work(tx: Transaction) -> None:
        expires_at = tx.now() + LASTS
        chats.write_code(tx, chat, account, code=_digest(code), expires_at=expires_at)

    store.once(work)
    return f"{code[:4]}-{code[4:8]}-{code[8:]}"


def look(desk: Desk, code: str, *, caller: Caller) -> dict[str, Any]:
    """Whose account a code would link; nothing is done.

    Raises:
        NotAllowed: A program asks.
        NotFound: The code is unknown, used up or too old.
    """
    _demand_person(caller)
    with desk.store.read() as tx:
        return _shown(_found(tx, code), caller)


def link(
    desk: Desk, code: str, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Make the account of a code the caller's; a code works once.

    Raises:
        NotAllowed: A program asks.
        NotFound: The code is unknown, used up or too old.
    """
    _demand_person(caller)
    deed, digest = secrets.token_hex(16), _digest(code)

    def work(tx: Transaction) -> str:
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        _demand_in_force(tx, caller)
        found = replace(
            _found(tx, code), principal=caller.name, login=caller.login, session=caller.session
        )
        at = tx.now()
        if not chats.redeem(tx, found, code=digest, at=at):
            raise _no_code()
        detail = {"chat": found.chat, "account": found.account, "login": caller.login}
        records.write_audit(tx, Deed(caller, "chat.linked", detail=detail, id=deed), at=at)
        subject = f"{found.chat}/{found.account}"
        once.remember(tx, caller, key, subject)
        return subject

    chat, _, account = once.run(desk.store, work).partition("/")
    return {"chat": chat, "account": account, "login": caller.login}


def links(desk: Desk, *, caller: Caller) -> dict[str, Any]:
    """The accounts that are the caller's."""
    with desk.store.read() as tx:
        found = chats.links(tx, caller.login) if caller.login is not None else []
    return {"items": [_shown(each, caller) for each in found]}


def unlink(
    desk: Desk, chat: str, account: str, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Make an account nobody's; whoever may grant may do so with the account of anyone.

    Raises:
        NotFound: It is not linked, or not the caller's.
        Conflict: Somebody else did so at this moment.
    """

    def work(tx: Transaction) -> str:
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        found = chats.link(tx, chat, account)
        is_mine = found is not None and caller.login is not None and found.login == caller.login
        if found is None or not (is_mine or caller.may(access.GRANT)):
            raise NotFound(
                f"no account {account[:80]!r} of {chat[:80]!r} is yours",
                next="manent link shows those that are",
            )
        at = tx.now()
        if not chats.unlink(tx, chat, account):
            raise Conflict("somebody else has done so at this moment", next="nothing is left to do")
        detail = {"chat": chat, "account": account, "login": found.login}
        records.write_audit(tx, Deed(caller, "chat.unlinked", detail=detail), at=at)
        once.remember(tx, caller, key, account)
        return account

    once.run(desk.store, work)
    return {"chat": chat, "account": account, "login": None}


def _demand_person(caller: Caller) -> None:
    if caller.kind != access.PERSON or caller.login is None:
        raise NotAllowed(
            f"{caller.name} is no person: only a person has accounts in chats",
            next="sign in as yourself: manent login, or a token of kind person",
        )


def _demand_in_force(tx: Transaction, caller: Caller) -> None:
    """Hold the sign-in: whoever revokes it at this moment finds what it has linked."""
    session = caller.session or ""
    if tokens.is_revoked(tx, session) or sessions.is_revoked(tx, session):
        raise NotSignedIn("the sign-in has just ended", next="sign in again")


def drop(tx: Transaction, session: str, *, caller: Caller) -> None:
    """Void what was linked with a sign-in that somebody has ended, on record."""
    for gone in chats.unlink_all(tx, session):
        detail = {"chat": gone.chat, "account": gone.account, "login": gone.login}
        told = detail | {"reason": "the sign-in it was linked with was ended"}
        records.write_audit(tx, Deed(caller, "chat.unlinked", detail=told), at=tx.now())


def _found(tx: Transaction, code: str) -> Link:
    found = chats.link_by_code(tx, _digest(code), at=tx.now())
    if found is None:
        raise _no_code()
    return found


def _no_code() -> NotFound:
    return NotFound(
        "the code is unknown, used up or too old",
        code="code_unknown",
        next="press the button in the chat again: it gives you a new one",
    )


def _digest(code: str) -> str:
    kept = "".join(c for c in code.casefold() if c.isalnum())
    return hashlib.sha256(kept.encode()).hexdigest()


def _shown(link: Link, caller: Caller) -> dict[str, Any]:
    return {"chat": link.chat, "account": link.account, "login": link.login or caller.login}
