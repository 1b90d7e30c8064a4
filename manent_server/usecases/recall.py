"""Recall: who did what, the newest first."""

from dataclasses import replace
from typing import Any

from manent_server.domain import access, audit
from manent_server.domain.access import Caller
from manent_server.domain.audit import Wanted
from manent_server.domain.errors import NotFound
from manent_server.store import audit as rows
from manent_server.store import finding
from manent_server.store.audit import Recorded
from manent_server.store.finding import About
from manent_server.store.transaction import Transaction
from manent_server.usecases import inspect, view
from manent_server.usecases.desk import Desk


def recall(desk: Desk, wanted: Wanted, *, caller: Caller) -> dict[str, Any]:
    """A page of the record; whoever may read it in some places only has to name one of them.

    Raises:
        NotAllowed: The caller may not read all of what was asked for.
        NotFound: It names a deploy, an application or an environment that is not there.
        Invalid: `before` is no record.
    """
    desk = desk.seen_by(caller)
    with desk.store.read() as tx:
        place: dict[str, Any] = {
            "application": wanted.application,
            "environment": wanted.environment,
        }
        if wanted.deploy is not None:
            about = _about(tx, desk, wanted.deploy)
            place = {"application": about.application, "environment": about.environment}
            wanted = replace(wanted, deploy=about.deploy)
        else:
            place = inspect.place(tx, desk, **place)
            wanted = replace(wanted, **place)
        caller.demand(access.AUDIT, **place)
        items, after = rows.page(tx, wanted)
    return view.page([_shown(one) for one in items], after)


def _about(tx: Transaction, desk: Desk, address: str) -> About:
    """The deploy that is meant; of one that was pruned the record is all there is.

    Raises:
        NotFound: There is none, and was none, that can be seen here.
    """
    try:
        found = desk.deploy(tx, address)
    except NotFound:
        gone = finding.recorded(tx, address, sight=desk.sight)
        if gone is None:
            raise
        return gone
    return About(found.id, found.application, found.environment)


def _shown(found: Recorded) -> dict[str, Any]:
    return {**audit.parse(found.text), "number": found.number, "hash": found.hash}
