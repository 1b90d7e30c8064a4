"""Whose: the person behind an account of a chat, and what they may do there."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from manent_server.domain.access import APPROVE, PERSON, Caller
from manent_server.domain.basis import GROUPS
from manent_server.settings.values import Access
from manent_server.store import chats as rows
from manent_server.store import sessions, tokens
from manent_server.store.transaction import Transaction
from manent_server.usecases.authenticate import granted, of_session, of_token
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import Visit


@dataclass(frozen=True)
class Account:
    """Somebody in a chat.

    Attributes:
        chat: Its name here.
        plugin: What kind of chat.
        account: The chat's own unchanging id of the user.
        address: From where the chat said so.
    """

    chat: str
    plugin: str
    account: str
    address: str | None = None

    @property
    def principal(self) -> str:
        """How it is named while nobody knows whose it is."""
        return f"{self.plugin}:{self.account}"


def caller(
    desk: Desk, account: Account, application: str | None = None, environment: str | None = None
) -> Caller | None:
    """The person of an account, with what they may by every sign-in in force; None: nobody's.

    Its session is the sign-in that lets it approve in that place: with it goes the vote.

    What `access.people` says goes before what somebody linked. A person of whom no sign-in is in
    force, and whose groups give nothing, is known and may nothing.
    """
    known = desk.settings().access
    visit = Visit(account.plugin, account.address)
    with desk.store.read() as tx:
        names = _names(tx, known, account)
        found = _sign_ins(tx, known, names, visit) if names else []
    if not names:
        return None
    login = known.login_of(names[0]) or names[0]
    person = known.people.get(login)
    groups = frozenset(person.groups if person else ()).union(*(one.groups for one in found))
    grants = (*chain.from_iterable(one.grants for one in found), *granted(known, groups))
    return Caller(
        names[0],
        tuple(dict.fromkeys(grants)),
        PERSON,
        login=login,
        groups=groups,
        channel=visit.channel,
        address=visit.address,
        session=next(
            (one.session for one in found if one.may(APPROVE, application, environment)), GROUPS
        ),
    )


def _names(tx: Transaction, known: Access, account: Account) -> Sequence[str]:
    """The principals of the person whose account it is; none: nobody's."""
    login = known.login_at(account.plugin, account.account)
    if login is not None:
        return (login, *known.people[login].principals)
    link = rows.link(tx, account.chat, account.account)
    if link is None or link.principal is None:
        return ()
    # By who they are now: a name that was taken from a person leaves with what it had linked.
    person = known.people.get(known.login_of(link.principal) or "")
    others = person.principals if person is not None else ()
    return tuple(dict.fromkeys((link.principal, *others)))


def _sign_ins(tx: Transaction, known: Access, names: Sequence[str], visit: Visit) -> list[Caller]:
    at = tx.now()
    found = [of_token(row, known, visit) for row in tokens.of_people(tx, names, at=at)]
    # The newest alone: the groups of an earlier sign-in may be those of yesterday.
    session = sessions.newest_of(tx, names, at=at)
    signed_in = of_session(session, known, visit) if session is not None else None
    return [*found, *([signed_in] if signed_in is not None else [])]
