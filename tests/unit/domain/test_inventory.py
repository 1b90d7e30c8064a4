"""Inventory: what an ended deploy leaves on its targets."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import inventory
from manent_server.domain.inventory import Knowledge, Standing


@pytest.mark.parametrize(
    ("touched", "reached", "returned", "expected"),
    [
        (False, False, None, Standing.UNTOUCHED),
        (True, False, None, Standing.TOUCHED),
        (True, True, None, Standing.REACHED),
        (True, True, True, Standing.RETURNED),
        (True, False, True, Standing.RETURNED),
        (True, True, False, Standing.TOUCHED),
        (True, False, False, Standing.TOUCHED),
    ],
)
def test_a_target_stands_where_its_last_hook_left_it(
    *, touched: bool, reached: bool, returned: bool | None, expected: Standing
):
    """I16"""
    assert inventory.standing(touched=touched, reached=reached, returned=returned) == expected


def test_untouched_targets_are_never_written():
    for reached, returned in product((False,), (None, False)):
        assert (
            inventory.standing(touched=False, reached=reached, returned=returned)
            == Standing.UNTOUCHED
        )


@given(st.dictionaries(st.text(max_size=3), st.sampled_from(Standing), max_size=6))
def test_every_target_but_the_untouched_gets_one_row(standings: dict[str, Standing]):
    rows = {change.target: change for change in inventory.changes(standings)}
    assert set(rows) == {t for t, how in standings.items() if how != Standing.UNTOUCHED}
    for target, row in rows.items():
        assert row.standing == standings[target]
        is_known = row.standing in (Standing.REACHED, Standing.RETURNED)
        assert (row.state == Knowledge.KNOWN) == is_known
