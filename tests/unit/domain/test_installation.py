"""The installation: when a database counts as older than what is known of it."""

import pytest

from manent_server.domain import installation
from manent_server.domain.installation import Known, Reached


@pytest.mark.parametrize(
    ("known", "reached", "is_back"),
    [
        ((1, 100), (1, 0, 100), False),
        ((1, 100), (1, 0, 101), False),
        ((1, 101), (1, 0, 100), True),
        ((0, 0), (1, 0, 0), False),
        ((2, 50), (1, 0, 100), True),
        # Noted before the database was restored and opened.
        ((1, 400), (2, 1_000_300, 1_000_301), False),
        ((1, 1_000_301), (2, 1_000_300, 1_000_305), True),
    ],
)
def test_went_back(known: tuple[int, int], reached: tuple[int, int, int], *, is_back: bool) -> None:
    """B139: numbers of one epoch are compared; an earlier epoch lies below the later one."""
    assert installation.went_back(Known("a", *known), Reached("a", *reached)) is is_back


def test_a_new_epoch_lies_beyond_all_that_is_known() -> None:
    """B139: of the record and of deploys, also where the same dump is restored twice."""
    known, reached = Known("a", 2, 1_000_450), Reached("a", 1, 0, 300)
    epoch, number = (
        installation.next_epoch(known, reached),
        installation.next_number(known, reached),
    )
    assert epoch == 3
    assert number > known.number
    assert installation.least_epoch_of_deploys(3) > installation.least_epoch_of_deploys(2) > 0
    opened = Reached("a", epoch, number - 1, number)
    assert not installation.went_back(known, opened)
