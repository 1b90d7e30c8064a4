"""The version that is live: what a redeploy that named none brings again."""

from dataclasses import dataclass

from manent_server.store import deploys
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Live:
    """The last version that succeeded somewhere, and the digest all its targets got, if one."""

    deploy: str
    version: str
    sha256: str | None


def read(tx: Transaction, application: str, environment: str) -> Live | None:
    """What is live there now; None where nothing ever succeeded."""
    row = deploys.last_good(tx, application, environment)
    if row is None:
        return None
    artifacts = (row.prepared or {}).get("artifacts", {}).values()
    digests = {artifact["sha256"] for artifact in artifacts}
    return Live(row.id, row.version, digests.pop() if len(digests) == 1 else None)
