"""What may be said of deploys of a restored database."""

from typing import Annotated, Literal

from pydantic import Field

from manent_server.api.bodies import Body, Parameters
from manent_server.api.fields import Reason, Text

Deploys = Annotated[list[Text], Field(max_length=1000)]


class RestoreQuery(Parameters):
    """Which live deploys to show, and whether to ask their targets."""

    deploy: Deploys = Field(default=[], description="Ids or addresses; all if none is named.")
    observe: bool = Field(default=False, description="Ask their targets what runs there.")
    lost_after: Text | None = Field(
        default=None, description="What is lost is shown in pages: `lost_next` of the one before."
    )


class GoOnBody(Body):
    """They may go on when the database is opened."""

    deploys: Deploys = Field(default=[], description="Ids or addresses; all or none is decided.")
    all: bool = Field(default=False, description="All of which nothing has been decided.")
    reason: Reason | None = None


class DropBody(GoOnBody):
    """They are not wanted any more."""


class CloseBody(GoOnBody):
    """They already ran and ended on their targets."""

    outcome: Literal["deployed", "failed", "rolled_back", "rollback_failed"] = Field(
        description="How; the inventory is set accordingly, `unknown` where that does not say it."
    )


class OpenBody(Body):
    """Everything may begin again."""

    force: bool = Field(default=False, description="Although deploys are undecided: they go on.")
    reason: Reason | None = Field(default=None, description="For the record; `force` wants one.")
