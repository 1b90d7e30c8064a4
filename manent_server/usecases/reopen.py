"""Reopen: a restored database begins a new epoch, beyond all that is known of the one it lost.

Numbers of the record and epochs of deploys are given once, also by an installation whose
database went back: the new epoch begins far above both, and the record states the gap.
"""

import secrets
from dataclasses import dataclass, field
from functools import partial
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
    """Who opens it, why, and what else the record, which has an id, is to say."""

    actor: Caller | str
    reason: str | None
    record: str = field(default_factory=partial(secrets.token_hex, 16))
    detail: dict[str, Any] = field(default_factory=dict)


def reopen(tx: Transaction, row: Installation, known: Known, words: Words) -> None:
    """Begin the next epoch, in the transaction that holds the installation's row.

    Every worker of before is taken over from: one that still lives ends at its next heartbeat,
    and what it ran is put back by the reconciler.
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
    records.write_audit(tx, Deed(words.actor, OPENED, detail=detail, id=words.record), at=at)
    audit.chain_beyond(tx, words.record, number=number)
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


def _by(actor: Caller | str) -> str:
    if isinstance(actor, str) or actor.channel == access.MANENT.channel:
        # Nobody vouches for what those workers left.
        return access.MANENT.name
    return actor.name if actor.name.startswith("local:") else f"user:{actor.name}"
