"""Identify: who is behind a request or a vote, as far as it matters who may approve."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from manent_server.domain import approval
from manent_server.domain.access import PERSON, Caller
from manent_server.domain.approval import Requester, Rule, Voter
from manent_server.domain.errors import Refused
from manent_server.domain.order import Order
from manent_server.store import history
from manent_server.store.transaction import Transaction
from manent_server.usecases import view

_AUTOMATION = "automation"


class Brought(Protocol):
    """What is brought somewhere: a deploy, or what is to become one."""

    @property
    def application(self) -> str:
        """Whose."""

    @property
    def version(self) -> str:
        """Of the application."""


def requester(
    caller: Caller, *, acts_for: str | None = None, is_nobodys: bool = False
) -> Requester:
    """The caller as one who asks.

    Args:
        caller: Who asks.
        acts_for: Who stands behind an automation: whoever made the schedule.
        is_nobodys: A program made it, and nobody knows for whom.
    """
    behind = caller.acts_for or acts_for
    is_automatic = caller.channel == _AUTOMATION
    return Requester(caller.name, caller.login, behind, is_automatic, is_nobodys)


def voter(caller: Caller) -> Voter:
    """The caller as one who votes: a program is no person, whosever it is."""
    login = caller.login if caller.kind == PERSON else None
    return Voter(caller.name, login, caller.groups)


def named_before(
    tx: Transaction, order: Order, *, of: Brought
) -> Sequence[Mapping[str, Any]] | None:
    """The changes that were named with its version before, where somebody has to agree.

    The way back to what ran is not barred to who wrote that.
    """
    is_asked = bool(order.approvals) and not order.returns
    return history.changes_of(tx, of.application, of.version) if is_asked else None


def demand_known(rules: Iterable[Rule], asks: Requester, *, override: Sequence[str]) -> None:
    """Refuse what a program asks for while nobody knows who is behind it, where a rule says so.

    Raises:
        Refused: Naming the rule.
    """
    rule = approval.unknown(rules, asks) if approval.GATE not in override else None
    if rule is None:
        return
    detail = (
        f"{asks.principal} is a program, and nobody knows for whom it asks: "
        f"rule {rule.name} could not tell who must not approve it"
    )
    raise Refused(
        detail,
        code="requester_unknown",
        next="map the account to a person under access.people, or ask as a person",
        facts=view.blocked(None, detail, ()),
    )
