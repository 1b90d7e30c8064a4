"""Observe: what runs on the targets of live deploys of a fenced database, as far as it can be told.

Only the hook `observe` runs, which reads. Who asks is told in words where nobody could be asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.engine.observing import Busy
from manent_server.store.deploys import Deploy
from manent_server.usecases.desk import Desk

ASKED: Final = "asked"
UNASKED: Final = "not asked for"
_NOBODY: Final = (
    "this process has no worker, so it runs no hook: ask one that has, or give --local where one is"
)
_BUSY: Final = "another list is being asked here just now; ask again"

Observed = Mapping[str, Sequence[Mapping[str, Any]]]


def observe(desk: Desk, rows: Sequence[Deploy], *, caller: Caller) -> tuple[str, Observed]:
    """`asked`, or why nobody was; and what was said, by deploy.

    Raises:
        NotAllowed: The caller may not have hooks run.
    """
    caller.demand(access.ADMINISTER)
    if desk.observer is None:
        return _NOBODY, {}
    try:
        found = desk.observer.observe(rows)
    except Busy:
        return _BUSY, {}
    return ASKED, {deploy: [asdict(one) for one in seen] for deploy, seen in found.items()}
