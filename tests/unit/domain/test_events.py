"""Which deeds are events."""

from manent_server.domain import events
from manent_server.domain.marks import Sort
from manent_server.domain.schedule import Result


def test_so_is_what_deeds_are_made_of():
    """Names that are put together: of each sort of mark, and of each end of an instant."""
    made = {f"{sort}.{verb}" for sort in Sort for verb in ("set", "lifted")}
    made |= {f"schedule.{result}" for result in Result}
    assert sorted(made - set(events.KINDS)) == []


def test_tokens_are_nobodys_business():
    assert not events.is_told("token.created")
    assert events.is_told("deploy.ended")
