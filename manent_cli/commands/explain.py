"""`manent explain`: why a deploy is not running yet."""

from collections.abc import Mapping
from typing import Any

from manent_cli.client import segment
from manent_cli.noun import GATES, address
from manent_cli.options import Address, Options, command, new_app, options
from manent_cli.session import Session
from manent_cli.table import draw, pairs

app = new_app()


@options
class Explain(Options):
    """What `explain` takes."""

    id: Address


@command(app, "explain", Explain)
def explain(session: Session, given: Explain) -> None:
    """Say why a deploy is where it is, and what opens its way."""
    reasons = session.client.get(f"/deploys/{segment(address(given.id))}/explain")
    session.output.one(
        reasons,
        name=f"deploy/{reasons.get('id')}",
        text=lambda wide: sheet(reasons, wide=wide),
    )


def sheet(reasons: Mapping[str, Any], *, wide: bool) -> str:
    """The reasons for people."""
    blocking = reasons.get("blocked_by") or {}
    workers = reasons.get("workers") or {}
    executor = f", on {blocking.get('executor')}" if blocking.get("executor") else ""
    alive = ", which is not alive" if blocking.get("alive") is False else ""
    text = pairs(
        [
            ("id", reasons.get("id")),
            ("state", reasons.get("state")),
            ("phase", reasons.get("phase")),
            ("summary", reasons.get("summary")),
            ("position", reasons.get("position")),
            ("ahead", reasons.get("ahead")),
            ("blocked by", f"{blocking['id']}{executor}{alive}" if blocking.get("id") else None),
            ("pool", workers.get("pool")),
            ("workers alive", workers.get("alive")),
            ("workers lack", workers.get("lacking")),
        ]
    )
    gates = reasons.get("gates")
    return text + ("\n" + draw(GATES, gates, wide=wide) if gates else "")
