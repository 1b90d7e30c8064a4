"""Reopen: a restored database begins a new epoch, beyond all that is known of the one it lost.

Numbers of the record and epochs of deploys are given once, also by an installation whose
database went back: the new epoch begins far above both, and the record states the gap.
"""

import secrets
from dataclasses import dataclass, field
from typing import Any

from manent_server.domain import access
from manent_server.domain import installation as rules
from manent_server.domain.access import Caller
from manent_server.domain.audit import OPENED
from manent_server.domain.installation import Known
from manent_server.store import audit, installation, records, workers
from manent_server.store.installation import Installation
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Words:
    """Who opens it, why, and what else the record is to say."""

    actor: Caller | str
    reason: str | None
    detail: dict[str, Any] = field(default_factory=dict)


def reopen(tx: Transaction, row: Installation, known: Known, words: Words) -> dict[str, Any]:
    """Begin the next epoch, in the transaction that holds the installation's row.

    Every worker of before is taken over from: one that still lives ends at its next heartbeat,
    and what it ran is put back by the reconciler.

    Returns:
        What the record says of it.
    """
    at = tx.now()
    epoch = rules.next_epoch(known, row.reached)
    number = rules.next_number(known, row.reached)
    detail = {
        "epoch": epoch,
        "first": row.number + 1,
        "last": number - 1,
        "known": known.number,
        "reason": words.reason,
        **words.detail,
    }
    deed = Deed(words.actor, OPENED, detail=detail, id=secrets.token_hex(16))
    records.write_audit(tx, deed, at=at)
    audit.chain_beyond(tx, deed.id or "", number=number)
    installation.raise_epochs(tx, rules.least_epoch_of_deploys(epoch))
    workers.retire_all(tx, by=_by(words.actor), at=at)
    installation.forget_resumed(tx)
    installation.update(
        tx,
        epoch=epoch,
        began=number - 1,
        fenced_at=None,
        fenced_by=None,
        restored_epoch=None,
        restored_number=None,
        known_epoch=None,
        known_number=None,
    )
    return detail


def _by(actor: Caller | str) -> str:
    if isinstance(actor, str) or actor.channel == access.MANENT.channel:
        # Nobody vouches for what those workers left.
        return access.MANENT.name
    return actor.name if actor.name.startswith("local:") else f"user:{actor.name}"
