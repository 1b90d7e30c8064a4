"""Hear: what comes from a chat, if it is the chat that says it and a person who may."""

import logging
import secrets
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

from manent_server.domain import signature
from manent_server.domain.access import Caller
from manent_server.domain.chat import REJECT, Ballot, Heard, Knock, is_plain
from manent_server.domain.errors import Conflict, ManentError, NotAllowed, Unavailable
from manent_server.domain.signature import Fault, Signed
from manent_server.observability.chats.line import Chat, Reply
from manent_server.observability.log import fields
from manent_server.observability.quota import Quota
from manent_server.store import approvals, records
from manent_server.store import chats as rows
from manent_server.store.approvals import Approval
from manent_server.store.records import Deed
from manent_server.store.transaction import Store, Transaction
from manent_server.usecases import chats, decide, inbox, link, whose
from manent_server.usecases.chats import Chats
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import Decision
from manent_server.usecases.whose import Account

_log = logging.getLogger(__name__)
_UNKNOWN: Final = "unknown"
_AWAY: Final = 503
_DEAF: Final = "cannot listen"
_DEED: Final = "chat.refused"
_PATIENCE: Final = timedelta(seconds=2)
"""How long the database may take: a chat waits for three seconds."""
_REFUSED: Final = Reply(
    401,
    {
        "type": "urn:manent:problem:not_believed",
        "title": "Not believed",
        "status": 401,
        "code": "not_believed",
        "detail": "nothing shows that this request comes from the chat",
        "next": "the log of the server says what is wrong with it",
    },
)
"""The one answer to whatever is not believed: it tells nobody how near he was."""


@dataclass(frozen=True)
class Ear:
    """What one process listens with: the chats, and how much strangers may make it write."""

    chats: Chats
    quota: Quota


@dataclass(frozen=True)
class Doubt:
    """Why a request is not believed; `difference`: how far the clocks are apart, where known."""

    fault: Fault
    difference: timedelta | None = None


def hear(desk: Desk, ear: Ear, name: str, knock: Knock) -> Reply:
    """The answer to a request; a vote in it is recorded before.

    Args:
        desk: The collaborators.
        ear: What this process listens with.
        name: Of the chat, as somebody wrote it.
        knock: The request.
    """
    found = _opened(desk, ear, name, knock)
    if isinstance(found, Doubt):
        return turn_away(desk, ear, name, found, knock.address)
    try:
        doubt = _doubt(desk, name, found.signed)
        if doubt is not None:
            return turn_away(desk, ear, name, doubt, knock.address)
        desk.metrics.chat_request(name, "heard")
        account = Account(name, found.plugin, found.heard.user, knock.address)
        heard = replace(found.heard, comment=ear.chats.clean(found.heard.comment))
        return act(desk, found.chat, account, heard)
    except Unavailable as error:
        words = f"{error.detail}. Press again in a while."
        reply = found.chat.answer(found.heard, words, is_done=False)
        # Who goes by the status is told that it may be sent again; 200 is for those who show words.
        return reply if reply.status == HTTPStatus.OK else replace(reply, status=_AWAY)


@dataclass(frozen=True)
class _Opened:
    """What a chat has said, well signed."""

    plugin: str
    chat: Chat
    signed: Signed
    heard: Heard


def _opened(desk: Desk, ear: Ear, name: str, knock: Knock) -> _Opened | Doubt:
    """The chat and what it says; everything is asked of the bytes before they are read."""
    settings = desk.settings()
    found = settings.chat.get(name)
    if found is None:
        return Doubt(Fault.UNKNOWN)
    if not chats.may_come_from(found, knock.address):
        return Doubt(Fault.ELSEWHERE)
    try:
        chat = ear.chats.open(settings, name)
    except ManentError as error:
        if ear.quota.admit(_DEAF) is not None:  # strangers can make this happen
            _log.error("chat %s cannot listen: %s", name, error.detail)
        return Doubt(Fault.UNKNOWN)
    read = chat.read(knock) if chat is not None else Fault.UNKNOWN
    if chat is None or isinstance(read, Fault):
        return Doubt(read if isinstance(read, Fault) else Fault.UNKNOWN)
    signed, heard = read
    opened = _Opened(found.plugin, chat, signed, heard)
    return opened if is_plain(heard.user) else Doubt(Fault.UNREADABLE)


def _doubt(desk: Desk, name: str, signed: Signed) -> Doubt | None:
    """Whether a request that is well signed comes in time and for the first time."""
    writer = secrets.token_hex(8)

    def work(tx: Transaction) -> Doubt | None:
        at = tx.now()
        difference = signature.difference(signed, at=at)
        if signed.window == signature.WINDOW:
            desk.metrics.chat_clock(name, difference)
        if signature.is_late(signed, at=at):
            return Doubt(Fault.LATE, difference)
        expires_at = at + signed.kept
        is_new = rows.see(tx, name, signed.nonce, writer=writer, expires_at=expires_at)
        return None if is_new else Doubt(Fault.REPLAYED)

    return desk.store.repeat(work, patience=_PATIENCE)


def turn_away(desk: Desk, ear: Ear, name: str, doubt: Doubt, address: str | None) -> Reply:
    """Refuse a request, and write down why: so often in a while, whoever asks how often."""
    shown = name if name in desk.settings().chat else _UNKNOWN
    desk.metrics.chat_request(shown, doubt.fault)
    kept_back = ear.quota.admit(shown)
    if kept_back is None:
        return _REFUSED
    words = _words(doubt)
    named = fields(chat=shown, fault=str(doubt.fault), client=address or "", more=kept_back)
    _log.warning("chat %s: a request is refused: %s", shown, words, extra=named)
    detail = {"chat": shown, "fault": doubt.fault, "reason": words, "kept_back": kept_back}
    stranger = Caller(f"chat:{shown}", (), channel="chat", address=address)
    _record(desk.store, Deed(stranger, _DEED, detail=detail))
    return _REFUSED


def hear_too_much(desk: Desk, ear: Ear, name: str, address: str | None) -> None:
    """Write down that a body was too large, or did not come."""
    turn_away(desk, ear, name, Doubt(Fault.OVERSIZED), address)


def _words(doubt: Doubt) -> str:
    if doubt.difference is None:
        return str(doubt.fault)
    seconds = int(doubt.difference.total_seconds())  # a chat's own are whole
    whose = "ours is ahead, or it was long on its way" if seconds > 0 else "ours is behind"
    return f"{doubt.fault}: it is well signed, but the clocks differ by {abs(seconds)} s ({whose})"


def act(desk: Desk, chat: Chat, account: Account, heard: Heard) -> Reply:
    """Do what a person asks for in a chat, or tell them why not.

    Raises:
        Unavailable: Nothing was done: the database does not answer, or another process acts.
    """
    if heard.ballot is None:
        return Reply()
    try:
        asks = _asked(desk, heard.ballot)
        place = (asks.application, asks.environment) if asks is not None else (None, None)
        caller = whose.caller(desk, account, *place)
        if caller is None:
            return _introduce(desk, chat, account, heard)
        _demand_rights(caller)
        _demand_asked(asks, account, heard.ballot, caller)
        if heard.needs_comment:
            return chat.ask_comment(heard, heard.ballot)
        done = decide.decide(
            desk,
            heard.ballot.approval,
            Decision(heard.ballot.decision, heard.comment or None),
            caller=caller,
        )
    except Unavailable:
        raise
    except ManentError as error:
        return _refuse(desk, chat, account, heard, error)
    desk.metrics.chat_request(account.chat, heard.ballot.decision)
    return chat.answer(heard, str(done["message"]), is_done=True)


def _asked(desk: Desk, ballot: Ballot) -> Approval | None:
    """The approval a ballot names; neither its digest nor its rule ever changes."""
    with desk.store.read() as tx:
        return approvals.read(tx, ballot.approval)


def _demand_asked(asks: Approval | None, account: Account, ballot: Ballot, caller: Caller) -> None:
    """A chat decides what it was shown, and nothing else.

    Raises:
        NotFound: There is none, or the person does not see it.
        NotAllowed: Its rule does not ask in this chat.
        Conflict: It was shown what somebody else made of it.
    """
    if asks is None or not caller.sees(asks.application, asks.environment):
        raise inbox.nothing(_named(ballot))
    if account.chat not in asks.asks.chat:
        raise NotAllowed(
            f"rule {asks.rule} does not ask in chat {account.chat}",
            code="chat_not_asked",
            next=f"manent approve {asks.id}",
        )
    if ballot.digest != asks.digest:
        raise Conflict(
            "what was shown is not what is asked",
            code="approval_void",
            next=f"manent approve {asks.id}",
        )


def _demand_rights(caller: Caller) -> None:
    """Say so where somebody may nothing: else they would only hear of nothing they may see."""
    if not caller.grants:
        raise NotAllowed(
            f"{caller.login} may nothing here: no sign-in of theirs is in force",
            next="sign in with manent login, or ask an administrator for a token",
        )


def _introduce(desk: Desk, chat: Chat, account: Account, heard: Heard) -> Reply:
    """Nobody knows whose account it is: only they can say so, signed in to manent."""
    code = link.give(desk.store, account.chat, account.account)
    _unheard(desk, account, heard.ballot, "unmapped", "nobody knows whose account this is")
    return chat.answer(
        heard.whisper(),
        f"manent does not know who you are. Run: manent link {code} (good for 10 minutes, once, "
        "for you alone), then press again.",
        is_done=False,
    )


def _refuse(desk: Desk, chat: Chat, account: Account, heard: Heard, error: ManentError) -> Reply:
    _unheard(desk, account, heard.ballot, error.code, error.detail)
    return chat.answer(heard, f"{error.detail}. {error.next}".strip(), is_done=False)


def _unheard(desk: Desk, account: Account, ballot: Ballot | None, code: str, reason: str) -> None:
    desk.metrics.chat_request(account.chat, "unmapped" if code == "unmapped" else "refused")
    detail: dict[str, Any] = {"chat": account.chat, "account": account.account, "fault": code}
    detail |= {"reason": reason, "decision": ballot.decision if ballot else REJECT}
    detail |= {"approval": _named(ballot) if ballot else None}
    known = Caller(account.principal, (), channel=account.plugin, address=account.address)
    _record(desk.store, Deed(known, _DEED, detail=detail))


def _named(ballot: Ballot) -> str:
    """The approval of a ballot as it may be told and recorded: else anything could stand there."""
    return ballot.approval if inbox.is_id(ballot.approval) else "of that name"


def _record(store: Store, deed: Deed) -> None:
    """Write down a refusal; the answer does not wait for a database that is away.

    A commit whose answer was lost may be repeated: the id says that it is the same deed.
    """
    once = replace(deed, id=secrets.token_hex(16))

    def work(tx: Transaction) -> None:
        if records.read_detail(tx, once.id or "") is None:
            records.write_audit(tx, once, at=tx.now())

    try:
        store.repeat(work, patience=_PATIENCE)
    except Unavailable:
        _log.warning("a refusal could not be recorded: %s", deed.detail)
