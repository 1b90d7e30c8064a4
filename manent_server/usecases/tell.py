"""Tell: a chat shows how far a deploy is, in one message that changes with it."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from manent_server.domain.chat import Card
from manent_server.domain.errors import ManentError
from manent_server.observability.chats.line import Chat, Declined
from manent_server.observability.egress import Unreached
from manent_server.observability.redaction import Redactor
from manent_server.settings import values
from manent_server.store import chats as rows
from manent_server.store.chats import Message
from manent_server.store.notices import Notice
from manent_server.store.transaction import Transaction
from manent_server.usecases import card as cards
from manent_server.usecases.chats import Chats
from manent_server.usecases.deliver import Receipt
from manent_server.usecases.desk import Desk

_TOLD: Final = Receipt(200)
_CALLS: Final = 3


class Telling:
    """Tells one chat. What it shows is read when it is told: a late notice shows no old state.

    Args:
        desk: The collaborators.
        chats: Where the chat is.
        redactor: What may leave this server.
        name: Of the chat.
        settings: Of the chat, by today's configuration.
    """

    def __init__(
        self, desk: Desk, chats: Chats, redactor: Redactor, name: str, settings: values.Chat
    ) -> None:
        self._desk = desk
        self._chats = chats
        self._redactor = redactor
        self._name = name
        self._settings = settings

    @property
    def limit(self) -> timedelta:
        """The time for the few calls of one try; resolving a name comes on top."""
        return self._settings.timeout * _CALLS + timedelta(seconds=20)

    def lacking(self) -> str | None:
        """A secret that cannot be read or used."""
        try:
            self._chats.open(self._desk.settings(), self._name)
        except ManentError as error:
            return self._redactor.redact(error.detail)
        return None

    def carry(self, notice: Notice, *, at: datetime) -> Receipt:
        """Bring the message of the deploy up to date."""
        try:
            self._bring(notice.event.deploy or "", at)
        except Declined as error:
            return Receipt(error.status, self._redactor.redact(str(error)), error.retry_after)
        except Unreached as error:
            return Receipt(None, self._redactor.redact(str(error)))
        except ManentError as error:
            return Receipt(None, self._redactor.redact(error.detail))
        return _TOLD

    def _bring(self, deploy: str, at: datetime) -> None:
        chat = self._chats.open(self._desk.settings(), self._name)
        with self._desk.store.read() as tx:
            card = cards.read(tx, deploy, self._name, url=self._desk.url)
            message = rows.message(tx, self._name, deploy)
        if chat is not None and card is not None:
            self._show(chat, self._safe(card), message, at)

    def _show(self, chat: Chat, card: Card, known: Message | None, at: datetime) -> None:
        shown = cards.digest(card)
        channel = self._settings.channel or ""
        if known is not None and known.channel != channel:
            known = None  # the chat has another channel now: there it is new
        if known is not None and known.message is not None and known.shown == shown:
            return
        message = self._place(chat, card, known, at)
        if message is None:
            # Written first: after a crash the message is looked for before another is posted.
            self._write(Message(self._name, card.key, channel, None, card.digest, ""), at)
        message = chat.tell(card, message, at=at)
        self._write(Message(self._name, card.key, channel, message, card.digest, shown), at)

    def _place(self, chat: Chat, card: Card, known: Message | None, at: datetime) -> str | None:
        """The message that is to be changed; None if a new one is wanted."""
        if known is None:
            return None
        if known.message is None:
            return chat.find(card)
        if chat.is_kept or known.digest == card.digest:
            return known.message
        # Whoever answers the old message has seen what nobody asks any more.
        closed = replace(card, questions=(), outcome="it has changed and is asked anew, below")
        chat.tell(closed, known.message, at=at)
        return None

    def _write(self, message: Message, at: datetime) -> None:
        def work(tx: Transaction) -> None:
            rows.write_message(tx, message, at=at)

        self._desk.store.once(work)

    def _safe(self, card: Card) -> Card:
        """Without any secret that somebody wrote where it does not belong."""
        clean = self._redactor.redact
        return replace(
            card,
            title=clean(card.title),
            facts=[(label, clean(text)) for label, text in card.facts],
            questions=[
                replace(each, votes=[clean(vote) for vote in each.votes]) for each in card.questions
            ],
            outcome=clean(card.outcome) if card.outcome is not None else None,
        )
