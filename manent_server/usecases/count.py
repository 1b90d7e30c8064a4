"""Count: what events say of deploys is added up when they get their positions."""

from collections import Counter
from collections.abc import Sequence

from manent_server.domain import tally
from manent_server.domain.events import ENDED, STARTED
from manent_server.domain.tally import Key
from manent_server.store import tallies
from manent_server.store.events import Numbered
from manent_server.store.transaction import Transaction


def count(tx: Transaction, numbered: Sequence[Numbered]) -> None:
    """Add events up; each is numbered once, in this very transaction, so it counts once."""
    started = [one.event.deploy for one in numbered if one.event.type == STARTED]
    ended = [one.event.deploy for one in numbered if one.event.type == ENDED]
    found: Counter[Key] = Counter()
    named = [deploy for deploy in (*started, *ended) if deploy is not None]
    if named:
        found += _of_deploys(tx, started, ended, named)
    tallies.add(tx, found)


def _of_deploys(
    tx: Transaction,
    started: Sequence[str | None],
    ended: Sequence[str | None],
    named: Sequence[str],
) -> Counter[Key]:
    found: Counter[Key] = Counter()
    lives = tallies.lives(tx, sorted(set(named)))
    for life in (lives[deploy] for deploy in started if deploy in lives):
        found += tally.begun(life)
    gone = [deploy for deploy in ended if deploy is not None and deploy in lives]
    if gone:
        known = set(tallies.environments(tx))
        for deploy in gone:
            found += tally.ended(lives[deploy], known)
            known |= {labels.partition("|")[0] for name, labels in found if name == tally.ENDED}
        found += Counter(tallies.attempts(tx, gone))
    return found
