import pytest

from manent_server.domain import suspicion


@pytest.mark.parametrize(("deaths", "expected"), [(0, False), (1, False), (2, True), (7, True)])
def test_two_deaths_make_a_suspect(deaths: int, *, expected: bool):
    assert suspicion.is_suspect(deaths) is expected


@pytest.mark.parametrize(
    ("deaths", "limit", "expected"),
    [(2, 3, False), (3, 3, True), (4, 5, False), (5, 5, True), (2, 1, False), (3, 1, True)],
)
def test_only_a_death_in_a_trial_poisons(deaths: int, limit: int, *, expected: bool):
    assert suspicion.is_poisoned(deaths, limit=limit) is expected
