"""Idempotency: one key, one deed."""

from collections.abc import Callable

from manent_server.domain.access import Caller
from manent_server.domain.errors import KeyReused
from manent_server.store import records
from manent_server.store.records import Key, KeyTaken
from manent_server.store.transaction import Store, Transaction
from manent_server.usecases.requests import IdempotencyKey


def remembered(tx: Transaction, caller: Caller, key: IdempotencyKey | None) -> str | None:
    """What the first use of the key came to, or None if this is the first.

    Raises:
        KeyReused: It came with another body.
    """
    if key is None:
        return None
    known = records.read_key(tx, caller.name, key.path, key.key)
    if known is None:
        return None
    if known.body_digest != key.body_digest:
        raise KeyReused(
            "this idempotency key was used before with another body",
            next="use a new key for a new request",
        )
    return known.subject


def remember(tx: Transaction, caller: Caller, key: IdempotencyKey | None, subject: str) -> None:
    """Record the first use, in the transaction of the deed."""
    if key is not None:
        stored = Key(caller.name, key.path, key.key, key.body_digest, subject)
        records.write_key(tx, stored, at=tx.now())


def run(store: Store, work: Callable[[Transaction], str]) -> str:
    """Run a deed; one that lost the race for its key is run again and finds the winner's."""
    try:
        return store.once(work)
    except KeyTaken:
        return store.once(work)
