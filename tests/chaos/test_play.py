"""Two minutes of faults: whatever the nemesis does, the invariants hold."""

from pathlib import Path

import pytest

from tests.chaos import checkers, mutants
from tests.chaos.checkers_words import ends
from tests.chaos.play import Play, perform

# Alone: a machine that is busy with something else delays heartbeats as well.
pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.timed, pytest.mark.timeout(600)]


@pytest.mark.parametrize("seed", [101, 102])
def test_the_invariants_hold_under_faults(seed: int, tmp_path: Path) -> None:
    """B03, B07, B21, B23, B28, B33, B35: I1 to I20, as far as they apply, in a run that counts."""
    result = perform(Play(seed, seconds=60, longest=240), tmp_path)
    result.history.write(tmp_path / "history.jsonl")
    assert result.violations == [], f"{result}\nhistory: {tmp_path}"
    assert result.missing == [], str(result)


@pytest.mark.soak
def test_without_faults_everything_ends_as_its_version_says(tmp_path: Path) -> None:
    """I20: what the faulty runs are compared with."""
    result = perform(Play(101, seconds=60, faults=False, acts=20), tmp_path)
    assert checkers.check(result.history) == []
    found, calm = ends(result.history), result.history.settings["calm_ends"]
    assert found
    assert found == {nonce: calm[nonce] for nonce in found}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(201, 211))
def test_ten_seeds_of_six_minutes(seed: int, tmp_path: Path) -> None:
    """An hour in all."""
    result = perform(Play(seed, seconds=360, longest=600), tmp_path)
    result.history.write(tmp_path / "history.jsonl")
    assert result.violations == [], f"{result}\nhistory: {tmp_path}"
    assert result.missing == [], str(result)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", mutants.MUTATIONS)
def test_faults_find_every_mutation(mutant: str, tmp_path: Path) -> None:
    """By chance, where the interleavings of test_mutations.py find them at once."""
    for seed in range(301, 306):
        folder = tmp_path / str(seed)
        folder.mkdir()
        if perform(Play(seed, seconds=120, mutant=mutant), folder).violations:
            return
    pytest.fail(f"{mutant} went unnoticed")
