"""Overhear: read a Matrix room for what people say to our messages, under a lease."""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from manent_server.domain.chat import REJECT, Ballot, Heard, Question
from manent_server.domain.errors import ManentError, Unavailable
from manent_server.observability.chats.line import Declined, Reply
from manent_server.observability.chats.matrix import Matrix, Word
from manent_server.observability.egress import Unreached
from manent_server.settings.chat import MATRIX
from manent_server.store import chats as rows
from manent_server.store.transaction import Transaction
from manent_server.usecases import card as cards
from manent_server.usecases import hear
from manent_server.usecases.chats import Chats
from manent_server.usecases.desk import Desk
from manent_server.usecases.whose import Account

_log = logging.getLogger(__name__)
_REST: Final = 10
"""Rounds left out after a homeserver that did not answer."""


class Overhearing:
    """One room, read by one process at a time.

    Args:
        desk: For whoever may write only while the lease holds.
        chats: Where the room is.
        name: Of the chat.
        wait: How long the homeserver may hold a question: shorter than the lease.
    """

    def __init__(self, desk: Desk, chats: Chats, name: str, *, wait: timedelta) -> None:
        self._desk = desk
        self._chats = chats
        self._name = name
        self._wait = wait
        self._joined: str | None = None
        self._me = ""
        self._rests = 0

    def round(self) -> None:
        """Ask once, do what was said, remember how far it was read."""
        if self._rests:
            self._rests -= 1
            return
        settings = self._desk.settings()
        try:
            room = self._chats.room(settings, self._name, timeout=self._wait.total_seconds())
            if room is not None:
                self._read(room, settings.chat[self._name].channel or "")
        except (Declined, Unreached) as error:
            self._fail(str(error))
        except Unavailable:
            raise  # the loop knows what to do; what was said is read again
        except ManentError as error:
            self._fail(error.detail)

    def _fail(self, words: str) -> None:
        self._rests, self._joined = _REST, None
        self._desk.metrics.chat_request(self._name, "unread")
        _log.warning("chat %s cannot be read: %s", self._name, words)

    def _read(self, room: Matrix, channel: str) -> None:
        if self._joined != channel:
            self._me = room.join()
            self._joined = channel
        with self._desk.store.read() as tx:
            since = rows.cursor(tx, self._name, channel)
        words, end = room.words(since, self._wait)
        replies = [
            reply
            for word in words
            if word.user != self._me
            for reply in self._take_safely(room, word)
        ]
        if end and end != since:
            self._desk.store.once(self._moved(channel, end))
        # Answers take their time: whatever becomes of them, what was said is not done again.
        for reply in replies:
            self._say(reply)

    def _moved(self, channel: str, end: str) -> Callable[[Transaction], None]:
        def work(tx: Transaction) -> None:
            rows.move_cursor(tx, self._name, channel, end, at=tx.now())

        return work

    def _take_safely(self, room: Matrix, word: Word) -> list[Reply]:
        try:
            reply = self._take(room, word)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - logged whole; what follows in the room is heard
            _log.exception("chat %s: what was said could not be taken", self._name)
            return []
        return [reply] if reply is not None else []

    def _take(self, room: Matrix, word: Word) -> Reply | None:
        with self._desk.store.read() as tx:
            message = rows.message_by_id(tx, self._name, word.about)
            card = (
                cards.read(tx, message.deploy, self._name, url=self._desk.url) if message else None
            )
        if message is None or card is None or word.decision is None:
            return None
        place = (("event", word.id),)
        heard = Heard(word.user, place=place)
        if not card.asked or message.digest != card.digest:
            return room.answer(heard, "nothing is asked here any more", is_done=False)
        found = _meant(card.asked, word)
        if found is None:
            names = ", ".join(each.rule for each in card.asked)
            words = f"which approval? Reply: {word.decision} and one of {names}"
            return room.answer(heard, words, is_done=False)
        question, said = found
        comment = self._chats.clean(said)
        ballot = Ballot(question.id, question.digest, word.decision)
        needs = word.decision == REJECT and not comment
        heard = Heard(word.user, ballot, comment, needs_comment=needs, place=place)
        return hear.act(self._desk, room, Account(self._name, MATRIX, word.user), heard)

    def _say(self, reply: Reply) -> None:
        """Answer; a vote that was recorded is not lost when its answer is."""
        try:
            if reply.after is not None:
                reply.after()
        except (Declined, Unreached) as error:
            _log.warning("chat %s: the person could not be told: %s", self._name, error)


def _meant(asked: Sequence[Question], word: Word) -> tuple[Question, str] | None:
    """Which approval somebody speaks of, and the words that are left; None: nobody can say."""
    first, _, rest = word.rest.partition(" ")
    named = [each for each in asked if each.rule == first]
    if len(asked) == 1:
        return asked[0], rest if named else word.rest
    return (named[0], rest) if named else None
