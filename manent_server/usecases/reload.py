"""Reload: every `serve` process is asked to take up its files anew.

They are asked by a number in the row of the installation, at which each of them looks all the
time; which files it reads is each one's own affair.
"""

import secrets
from typing import Any, Final

from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.domain.errors import ConfigurationError, Invalid
from manent_server.store import installation, records
from manent_server.store.installation import Installation
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import once
from manent_server.usecases.desk import Desk
from manent_server.usecases.prospect import Prospect
from manent_server.usecases.requests import IdempotencyKey

ASKED: Final = "policy.reload_asked"
_SOON: Final = (
    "every serve process takes up its own files within a few seconds; one whose files have faults "
    "goes on with what it had, says so in its log and counts manent_reload_failed_total"
)
_FENCED: Final = "no process takes anything up before the restored database is opened"


def reload(
    desk: Desk, reason: str | None = None, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Ask every process for a reload, once the files of this one are known to be good.

    Raises:
        Invalid: These files have faults; nobody was asked.
        Conflict: Live deploys need what would go; nobody was asked.
    """
    caller.demand(access.ADMINISTER)
    with desk.store.read() as tx:
        known = once.remembered(tx, caller, key)
        done = records.read_detail(tx, known) if known is not None else None
    if done is not None:
        return done
    found = _prospect(desk)
    fresh = secrets.token_hex(16)

    def work(tx: Transaction) -> str:
        installation.begin(tx)
        row = installation.lock(tx)
        known = once.remembered(tx, caller, key)
        if row is None or known is not None or records.read_detail(tx, fresh) is not None:
            return known or fresh  # somebody was faster, or the answer to a COMMIT was lost
        installation.update(tx, reload_asked=row.reload_asked + 1)
        answer = _answer(row, found, reason)
        records.write_audit(tx, Deed(caller, ASKED, detail=answer, id=fresh), at=tx.now())
        once.remember(tx, caller, key, fresh)
        return fresh

    name = once.run(desk.store, work)
    with desk.store.read() as tx:
        return records.read_detail(tx, name) or {}


def _prospect(desk: Desk) -> Prospect:
    try:
        return desk.prospect()
    except ConfigurationError as error:
        raise Invalid(
            f"a reload would change nothing: {error.detail}",
            code=error.code,
            next=error.next or "correct the file and ask again; no process was asked",
            errors=error.errors,
        ) from error


def _answer(row: Installation, found: Prospect, reason: str | None) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "reload": row.reload_asked + 1,
        "file": str(found.settings.path),
        "needs_restart": list(found.waiting),
        "going": [f"{need.words}, which goes; it ends as it was accepted" for need in found.going],
        "takes_effect": _FENCED if row.is_fenced else _SOON,
    }
    if found.changed is not None:
        answer |= {"changed": list(found.changed), "configuration": found.settings.digest}
    return answer | ({"reason": reason} if reason else {})
