"""What taking up the files anew would come to, before anything is changed."""

from collections.abc import Sequence
from dataclasses import dataclass

from manent_server.settings.values import Settings
from manent_server.usecases.needs import Need


@dataclass(frozen=True)
class Prospect:
    """What a reload would come to.

    Attributes:
        settings: What would be in force.
        waiting: Top-level keys that have changed and need a restart.
        going: Targets that live deploys visit and that go.
        changed: Top-level keys that would be taken up; None where nothing is in force.
    """

    settings: Settings
    waiting: Sequence[str]
    going: Sequence[Need]
    changed: Sequence[str] | None = None
