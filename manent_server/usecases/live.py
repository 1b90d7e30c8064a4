"""The version that is live: what a redeploy that named none brings again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manent_server.domain.deploy import Kind
from manent_server.store import deploys, history
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Live:
    """The last version that succeeded somewhere, the digest all its targets got, if one.

    `changes` are what it brought: who wrote them has no say in it when it is brought again.
    """

    deploy: str
    version: str
    sha256: str | None
    changes: Sequence[Mapping[str, Any]] | None


def read(tx: Transaction, application: str, environment: str) -> Live | None:
    """What is live there now; None where nothing ever succeeded."""
    row = deploys.last_good(tx, application, environment)
    if row is None:
        return None
    artifacts = (row.prepared or {}).get("artifacts", {}).values()
    digests = {artifact["sha256"] for artifact in artifacts}
    digest = digests.pop() if len(digests) == 1 else None
    return Live(row.id, row.version, digest, _changes(tx, row))


def _changes(tx: Transaction, row: Deploy) -> Sequence[Mapping[str, Any]] | None:
    """A rollback names none: whoever asked for what it brought back has."""
    if row.kind != Kind.ROLLBACK:
        return row.changes
    return history.changes_of(tx, row.application, row.version)
