"""What is known, and said, of attempts that were cut short."""

import sqlalchemy as sa

from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.store.work import Attempt, read_attempts


def deaths(tx: Transaction, deploy: Deploy) -> dict[str, int]:
    """How many workers died under each step of the deploy's pass that has not ended."""
    a, s = tx.tables.attempts, tx.tables.steps
    of_step = sa.and_(
        s.c.deploy == a.c.deploy, s.c.pass_number == a.c.pass_number, s.c.name == a.c.step
    )
    query = (
        sa.select(a.c.step, sa.func.count())
        .join(s, of_step)
        .where(
            a.c.deploy == deploy.id,
            a.c.pass_number == deploy.pass_number,
            a.c.died.is_(True),
            s.c.ended_at.is_(None),
        )
        .group_by(a.c.step)
    )
    return {row[0]: int(row[1]) for row in tx.connection.execute(query)}


def spare(tx: Transaction, incarnation: str) -> None:
    """A start of a worker that was taken for dead lives: its attempts count for no death."""
    a = tx.tables.attempts
    tx.connection.execute(
        sa.update(a)
        .where(a.c.incarnation == incarnation, sa.or_(a.c.died.is_(True), a.c.ended_at.is_(None)))
        .values(died=False)
    )


def last_begun(tx: Transaction, deploy: str, step: str) -> Attempt | None:
    """The last attempt of a step, over all passes of the deploy, that was not `not_started`."""
    begun = [
        attempt
        for attempt in read_attempts(tx, deploy)
        if attempt.step == step and attempt.result != "not_started"
    ]
    return max(begun, key=lambda attempt: (attempt.pass_number, attempt.attempt), default=None)


def resolve_attempt(tx: Transaction, attempt: str, answer: str) -> None:
    """Record what a person said of an attempt."""
    a = tx.tables.attempts
    tx.connection.execute(sa.update(a).where(a.c.id == attempt).values(resolved=answer))
