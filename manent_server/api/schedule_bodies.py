"""What requests about schedules may say."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from manent_server.api.bodies import Body, Parameters
from manent_server.api.fields import Few, Instant, Limit, Name, Reason, Text, Version, whole

_COUNT = "So many of the next instants."


class ScheduleBody(Body):
    """Deploy again and again. One of `version`, `newest` and `from` says what."""

    name: Name
    application: Name
    environment: Name
    cron: Text = Field(
        description="Minute, hour, day of month, month and day of week, as in `30 2 * * MON-FRI`."
    )
    timezone: Text = Field(
        default="UTC", description="The IANA zone whose clocks it goes by, as in `Europe/Rome`."
    )
    version: Version | None = Field(default=None, description="This version each time.")
    newest: bool = Field(
        default=False, description="The version that was accepted for the first time last."
    )
    from_: Name | None = Field(
        default=None, alias="from", description="What runs in this environment then."
    )
    overlap: Literal["skip", "queue"] = Field(
        default="skip",
        description="While a deploy of it has not ended, an instant is skipped; with `queue` only "
        "while one waits, so that one may wait behind one that runs.",
    )
    catch_up: Text | None = Field(
        default=None,
        description="After an outage the newest missed instant fires if it is no older than that, "
        "as in `2h`. Default: what was missed is only listed.",
    )
    reason: Reason | None = None


class PreviewBody(Body):
    """A schedule nobody has made yet."""

    cron: Text
    timezone: Text = "UTC"
    count: Annotated[int, Field(ge=1, le=100), BeforeValidator(whole)] = Field(
        default=5, description=_COUNT
    )


class PauseBody(Body):
    """Let a schedule not fire for a while."""

    reason: Reason | None = None


class ResumeBody(Body):
    """Let a schedule fire again."""


class ScheduleQuery(Parameters):
    """Which schedules to list."""

    application: Name | None = None
    environment: Name | None = None


class PreviewQuery(Parameters):
    """How far to look ahead."""

    count: Few = Field(default=5, description=_COUNT)


class RunQuery(Parameters):
    """Which past instants to list."""

    before: Instant | None = Field(default=None, description="`next` of the page before.")
    limit: Limit = 50
