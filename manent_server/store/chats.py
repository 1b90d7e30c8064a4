"""Rows of chats: messages, requests that were seen, whose account is whose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from manent_server.store.transaction import Transaction


def see(tx: Transaction, chat: str, nonce: str, *, writer: str, expires_at: datetime) -> bool:
    """Whether a request comes for the first time; `writer` tells a repeated transaction apart."""
    table = tx.tables.chat_seen
    row = {"chat": chat, "nonce": nonce, "writer": writer, "expires_at": expires_at}
    tx.connection.execute(_insert(tx, table).values(**row).on_conflict_do_nothing())
    query = sa.select(table.c.writer).where(table.c.chat == chat, table.c.nonce == nonce)
    return bool(tx.connection.execute(query).scalar_one() == writer)


def forget(tx: Transaction, *, before: datetime) -> int:
    """Remove what could not be used again, and codes nobody redeemed; how many rows."""
    seen, links = tx.tables.chat_seen, tx.tables.chat_links
    gone = tx.connection.execute(sa.delete(seen).where(seen.c.expires_at < before)).rowcount
    unlinked = links.c.linked_at.is_(None)
    old = sa.delete(links).where(unlinked, links.c.code_expires_at < before)
    return gone + tx.connection.execute(old).rowcount


@dataclass(frozen=True)
class Message:
    """What a chat shows of a deploy.

    Attributes:
        message: Its id there; None: whether it was posted is not known.
        digest: What it asked about.
        shown: Digest of what it shows.
    """

    chat: str
    deploy: str
    channel: str
    message: str | None
    digest: str
    shown: str


def message(tx: Transaction, chat: str, deploy: str) -> Message | None:
    """The message of a deploy in a chat."""
    table = tx.tables.chat_messages
    return _message(tx, table.c.chat == chat, table.c.deploy == deploy)


def message_by_id(tx: Transaction, chat: str, found: str) -> Message | None:
    """The same, by the chat's own id."""
    table = tx.tables.chat_messages
    return _message(tx, table.c.chat == chat, table.c.message == found)


def _message(tx: Transaction, *where: sa.ColumnElement[bool]) -> Message | None:
    c = tx.tables.chat_messages.c
    columns = (c.chat, c.deploy, c.channel, c.message, c.digest, c.shown)
    row = tx.connection.execute(sa.select(*columns).where(*where).limit(1)).one_or_none()
    return Message(*row) if row else None


def shown(tx: Transaction, chat: str, deploys: Sequence[str]) -> set[str]:
    """Which of these deploys a chat shows."""
    c = tx.tables.chat_messages.c
    query = sa.select(c.deploy).where(c.chat == chat, c.deploy.in_(deploys))
    return set(tx.connection.execute(query).scalars()) if deploys else set()


def write_message(tx: Transaction, message: Message, *, at: datetime) -> None:
    """Write what a chat shows of a deploy."""
    which = {"chat": message.chat, "deploy": message.deploy}
    values = {
        "channel": message.channel,
        "message": message.message,
        "digest": message.digest,
        "shown": message.shown,
        "told_at": at,
    }
    _put(tx, tx.tables.chat_messages, which, values)


@dataclass(frozen=True)
class Link:
    """An account of a chat, and whose it is; not linked while `principal` is None.

    `session`: the token or session it was linked with.
    """

    chat: str
    account: str
    principal: str | None
    login: str | None
    session: str | None = None


def link(tx: Transaction, chat: str, account: str) -> Link | None:
    """The account, if it is linked."""
    c = tx.tables.chat_links.c
    return _link(tx, c.chat == chat, c.account == account, c.linked_at.is_not(None))


def link_by_code(tx: Transaction, code: str, *, at: datetime) -> Link | None:
    """The account whose code this is the digest of, while the code is good."""
    c = tx.tables.chat_links.c
    return _link(tx, c.code == code, c.code_expires_at > at)


def _link(tx: Transaction, *where: sa.ColumnElement[bool]) -> Link | None:
    c = tx.tables.chat_links.c
    query = sa.select(c.chat, c.account, c.principal, c.login).where(*where)
    row = tx.connection.execute(query).one_or_none()
    return Link(*row) if row else None


def write_code(
    tx: Transaction, chat: str, account: str, *, code: str, expires_at: datetime
) -> None:
    """Give an account a code, in place of an earlier one."""
    values = {"code": code, "code_expires_at": expires_at}
    _put(tx, tx.tables.chat_links, {"chat": chat, "account": account}, values)


def redeem(tx: Transaction, link: Link, *, code: str, at: datetime) -> bool:
    """Link an account to `link.principal` and use its code up; False: somebody else was first."""
    table = tx.tables.chat_links
    done = tx.connection.execute(
        sa.update(table)
        .where(table.c.code == code, table.c.code_expires_at > at)
        .values(
            code=None,
            code_expires_at=None,
            principal=link.principal,
            login=link.login,
            session=link.session,
            linked_at=at,
        )
    )
    return done.rowcount == 1


def links(tx: Transaction, login: str) -> list[Link]:
    """Every account linked to a login."""
    c = tx.tables.chat_links.c
    query = sa.select(c.chat, c.account, c.principal, c.login).where(
        c.login == login, c.linked_at.is_not(None)
    )
    return [Link(*row) for row in tx.connection.execute(query.order_by(c.chat, c.account))]


def unlink_all(tx: Transaction, session: str) -> list[Link]:
    """What was linked with a token or session is nobody's any more; what that was."""
    table = tx.tables.chat_links
    is_of_it = table.c.session == session, table.c.linked_at.is_not(None)
    columns = (table.c.chat, table.c.account, table.c.principal, table.c.login)
    gone = sa.delete(table).where(*is_of_it).returning(*columns)
    return sorted((Link(*row) for row in tx.connection.execute(gone)), key=lambda one: one.account)


def unlink(tx: Transaction, chat: str, account: str) -> bool:
    """An account is nobody's any more; False: it was nobody's."""
    table = tx.tables.chat_links
    done = tx.connection.execute(
        sa.delete(table).where(
            table.c.chat == chat, table.c.account == account, table.c.linked_at.is_not(None)
        )
    )
    return done.rowcount == 1


def cursor(tx: Transaction, chat: str, channel: str) -> str | None:
    """How far a channel was read; None: not at all."""
    c = tx.tables.chat_cursors.c
    query = sa.select(c.cursor).where(c.chat == chat, c.channel == channel)
    found: str | None = tx.connection.execute(query).scalar()
    return found


def move_cursor(tx: Transaction, chat: str, channel: str, cursor: str, *, at: datetime) -> None:
    """A channel was read so far."""
    values = {"channel": channel, "cursor": cursor, "moved_at": at}
    _put(tx, tx.tables.chat_cursors, {"chat": chat}, values)


def _put(
    tx: Transaction, table: sa.Table, which: Mapping[str, Any], values: Mapping[str, Any]
) -> None:
    made = _insert(tx, table).values(**which, **values)
    tx.connection.execute(made.on_conflict_do_update(index_elements=[*which], set_=dict(values)))


def _insert(tx: Transaction, table: sa.Table) -> Any:
    """An insert that knows what to do with a row that is there."""
    return (sqlite if tx.dialect == "sqlite" else postgresql).insert(table)
