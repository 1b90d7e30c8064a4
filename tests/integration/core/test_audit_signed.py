"""The record, signed now and then, and what shows that it is not."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.domain import audit
from manent_server.store import records
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import chain, verify
from tests.integration.core.recording import by_force, do, emptied
from tests.rig.core import Core


@pytest.fixture
def core(core: Core) -> Core:
    """Nothing is on record, not even its own configuration."""
    return emptied(core)


class Fake:
    """Signs by turning a text round."""

    name = "fake"

    def sign(self, text: str) -> str:
        return text[::-1]


def is_signed(key: str, text: str, signature: str) -> bool:
    return key == "fake" and signature == text[::-1]


def test_the_chain_is_signed_now_and_then(core: Core):
    chainer = chain.Chainer(core.desk, Fake())
    do(core, 3)
    chainer.round()
    chainer.round()
    chainer.round()
    told = verify.verify(core.store, signed=is_signed)
    assert (told.records, told.checkpoints, told.signed_to, told.broken) == (4, 1, 3, None)

    do(core, 5)
    chainer.round()
    chainer.round()
    assert verify.verify(core.store).checkpoints == 1
    do(core, 1001)
    chainer.round()
    chainer.round()
    told = verify.verify(core.store, signed=is_signed)
    assert (told.checkpoints, told.signed_to) == (2, 1010)


def test_what_was_written_last_is_signed_within_the_hour(core: Core):
    """Though nothing is written after it: a night is long enough to write it anew."""
    passed = [0.0]
    chainer = chain.Chainer(core.desk, Fake(), lambda: passed[0])
    assert chainer.is_due(0), "whoever chained before may have left something"
    chainer.round()
    assert core.rows("audit") == [], "an empty chain has no place to sign"
    do(core, 3)
    chainer.round()
    chainer.round()
    do(core, 2)
    chainer.round()
    assert not chainer.is_due(6)
    older = core.at() - timedelta(hours=1)
    by_force(core, lambda tx: _set(tx, audit.CHECKPOINT, at=older))
    passed[0] = 3600.0
    assert chainer.is_due(6)
    chainer.round()
    assert checkpoints(core) == 2
    assert not chainer.is_due(6)
    by_force(core, lambda tx: _set(tx, audit.CHECKPOINT, at=core.at() + timedelta(days=9)))
    do(core, 1)
    chainer.round()
    assert checkpoints(core) == 3, "the database's clock was set back"


def test_what_another_process_has_left_unsigned_is_signed(core: Core):
    """The one that chains now had its turn before, and nothing is written any more."""
    mine, others = (chain.Chainer(core.desk, Fake(), lambda: 0.0) for _ in range(2))
    do(core, 1)
    for chainer in (mine, mine, others):
        chainer.round()
    do(core, 1)
    others.round()
    by_force(core, lambda tx: _set(tx, audit.CHECKPOINT, at=core.at() - timedelta(hours=1)))
    assert mine.is_due(3), "it has seen two"
    mine.round()
    assert checkpoints(core) == 2
    assert not mine.is_due(3)
    assert not chain.Chainer(core.desk).is_due(3), "nobody signs"


def checkpoints(core: Core) -> int:
    return [row["action"] for row in core.rows("audit")].count(audit.CHECKPOINT)


def _set(tx: Transaction, action: str, **values: Any) -> None:
    a = tx.tables.audit
    tx.connection.execute(sa.update(a).where(a.c.action == action).values(**values))


def test_a_chain_that_nobody_signs_any_more_is_broken(core: Core):
    """Whoever writes a new one, and leaves the signatures out, is found by whoever has the key."""
    do(core, 3)
    chain.chain(core.desk)
    told = verify.verify(core.store, signed=is_signed)
    assert told.broken is not None
    assert (told.broken.kind, told.broken.number, told.signed_to) == ("unsigned", 1, None)
    assert verify.verify(core.store).broken is None, "nobody is trusted"
    chainer = chain.Chainer(core.desk, Fake())
    chainer.round()
    chainer.round()
    for hours, kind in ((-9, None), (-8, None), (-7.5, None), (0, None), (-2, "unsigned")):
        # The one of just now: a server that begins after a long stop is yet to sign it.
        write(core, timedelta(hours=hours))
        broken = verify.verify(core.store, signed=is_signed).broken
        assert (broken and broken.kind) == kind, hours


def write(core: Core, age: timedelta) -> None:
    with core.store.write() as tx:
        records.write_audits(tx, [Deed("ann", "lock.set")], at=tx.now() + age)
    chain.chain(core.desk)


@pytest.mark.parametrize("change", [{"signature": "x"}, {"key": "eve"}, {"number": 1}])
def test_a_forged_checkpoint_is_named(core: Core, change: dict[str, Any]):
    """Whoever writes a whole new chain cannot sign it."""
    do(core, 3)
    chain.chain(core.desk)
    number, last = verify.verify(core.store).records, verify.verify(core.store).hash
    with core.store.write() as tx:
        at = tx.now()
        signature = audit.seal(number, last, audit.instant(at))[::-1]
        good = {"number": number, "hash": last, "key": "fake", "signature": signature}
        deed = Deed("manent", audit.CHECKPOINT, detail=good | change)
        records.write_audit(tx, deed, at=at)
    chain.chain(core.desk)
    broken = verify.verify(core.store, signed=is_signed).broken
    assert broken is not None
    assert (broken.kind, broken.number) == ("checkpoint", 4)
    assert verify.verify(core.store).broken is None


def test_a_signature_of_another_chain_signs_nothing_here(core: Core):
    """Whoever changes a record and chains all anew still has the signatures of before."""
    chainer = chain.Chainer(core.desk, Fake())
    do(core, 3)
    chainer.round()
    chainer.round()
    assert verify.verify(core.store, signed=is_signed).signed_to == 3

    def anew(tx: Transaction) -> None:
        a, c = tx.tables.audit, tx.tables.audit_chain
        [first] = tx.connection.execute(sa.select(a.c.entry, a.c.record).limit(1))
        text = first.record.replace('"number":0', '"number":9')
        assert text != first.record
        tx.connection.execute(sa.update(a).where(a.c.entry == first.entry).values(record=text))
        waiting = [{"entry": entry} for entry in tx.connection.scalars(sa.select(a.c.entry))]
        tx.connection.execute(sa.delete(c))
        tx.connection.execute(tx.tables.audit_waiting.insert(), waiting)

    by_force(core, anew)
    chain.chain(core.desk)
    assert verify.verify(core.store).broken is None
    broken = verify.verify(core.store, signed=is_signed).broken
    assert broken is not None
    assert (broken.kind, "not in the chain" in broken.detail) == ("checkpoint", True)
