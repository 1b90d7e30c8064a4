"""A restored database at the door: nothing runs on it until a person has decided."""

from pathlib import Path

import httpx2
import pytest

from tests.rig import dumps
from tests.rig.ledger import Ledger
from tests.rig.process import until
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e


def config(ledger: Ledger) -> Config:
    return {"applications": {f"app-{n}": ledger.application() for n in range(20)}}


def fenced(rig: Rig) -> str:
    """Wait until the server says that nothing begins; its words."""

    def ask() -> str | None:
        try:
            found = rig.http("GET", "/readyz")
        except httpx2.TransportError:
            return None
        words = " ".join(found.json()["reasons"])
        return words if found.status_code == 503 and "went back in time" in words else None

    return until(ask, what="a fenced server", limit=60.0) or ""


def test_the_restore_drill(shared: Rig, tmp_path: Path) -> None:
    """B139: 20 deploys, a dump, 20 more; the dump restored, the server begins no hook."""
    ledger = shared.ledger
    ledger.tell({"sleep": 3}, application="app-0")
    first = [shared.deploy("1", application=f"app-{n}")["id"] for n in range(20)]
    until(lambda: ledger.runs(application="app-0"), what="the first hook")
    dumped = tmp_path / "dump"
    dumps.dump(shared.database_url, dumped)
    ledger.tell()
    later = [shared.deploy("2", application=f"app-{n}")["id"] for n in range(20)]
    for deploy in (*first, *later):
        assert shared.ended(deploy)["state"] == "SUCCESS"
    assert shared.stop() == 0
    dumps.restore(shared.database_url, dumped)
    runs = len(ledger.lines())
    shared.start(wait=False)
    words = fenced(shared)
    assert "are missing; nothing begins" in words
    assert len(ledger.lines()) == runs
