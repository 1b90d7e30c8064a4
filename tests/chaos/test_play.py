"""A minute of faults: whatever the nemesis does, the invariants hold."""

from pathlib import Path

import pytest

from tests.chaos import checkers, mutants, strains
from tests.chaos.checker import Violation
from tests.chaos.checkers_words import ends
from tests.chaos.play import Play, Result, perform

# Alone: a machine that is busy with something else delays heartbeats as well.
pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.timed, pytest.mark.timeout(600)]


@pytest.mark.parametrize("seed", [101, pytest.param(102, marks=pytest.mark.soak)])
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
    calm = result.history.settings["calm_ends"]
    # What a schedule asked for has no end of its own in the plan.
    found = {nonce: end for nonce, end in ends(result.history).items() if nonce in calm}
    assert len(found) > len(calm) / 2
    assert found == {nonce: calm[nonce] for nonce in found}


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(201, 211))
def test_ten_seeds_of_six_minutes(seed: int, tmp_path: Path) -> None:
    """An hour in all."""
    result = perform(Play(seed, seconds=360, longest=600), tmp_path)
    result.history.write(tmp_path / "history.jsonl")
    assert result.violations == [], f"{result}\nhistory: {tmp_path}"
    assert result.missing == [], str(result)


# In between, so that not all workers are away at once.
_PAUSE = ("backends",) * 4
_AWAY = ("pause_long", *_PAUSE, "partition_long", *_PAUSE)
# Of the deaf ones, which outlast a takeover, only SIGKILL makes an end.
_MODES = {"term_at_lease_end": ("deaf",)}
# By which faults, and under which strain.
_FOUND_BY: dict[str, tuple[tuple[str, ...], str]] = {
    "no_epoch_check": (("kill", "pause_short", "pause_short"), "absent_minded"),
    "no_slot_key": (("kill", "pause_short"), ""),
    "no_attempt_lease": (_AWAY, ""),
    "no_standing_put_back": ((*_PAUSE * 5, "deploy_lock"), ""),
    "no_look_at_earlier_attempts": (("operator_early", *_PAUSE), ""),
    "term_at_lease_end": (_AWAY, ""),
    "guard_death_is_exit": (("guard",), "slow_sweep"),
    "no_word_on_an_instant": (("kill", "api"), ""),
}
# Where no answer to a heartbeat comes in time a hook that outlasts a lease never comes to its end.
_WITHOUT_END = frozenset({"slow_beat"})
# The interleaving alone shows these. Whoever dispatches has asked under the deploy's lock before.
# What a lease gains that is counted from the answer is nearly always over before a successor's hook
# has begun: in play after play faults did not find it.
_SECOND_LINES = frozenset({"dispatch_of_the_ended", "lease_from_the_answer"})


def _against(result: Result, strain: str) -> list[Violation]:
    """What speaks against it under a strain."""
    found = result.violations
    if strain in _WITHOUT_END:
        found = [one for one in found if "has not ended" not in one.what]
    return found


def test_every_mutation_has_its_faults() -> None:
    assert set(_FOUND_BY) | _SECOND_LINES == set(mutants.MUTATIONS)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutant", _FOUND_BY)
def test_faults_find_every_mutation(mutant: str, tmp_path: Path) -> None:
    """By chance, where the interleavings of test_mutations.py find them at once."""
    only, strain = _FOUND_BY[mutant]
    for seed in range(301, 306):
        folder = tmp_path / str(seed)
        folder.mkdir()
        play = Play(
            seed, seconds=60, mutant=mutant, only=only, strain=strain, modes=_MODES.get(mutant, ())
        )
        if _against(perform(play, folder), strain):
            return
    pytest.fail(f"{mutant} went unnoticed")


@pytest.mark.soak
@pytest.mark.parametrize("strain", strains.STRAINS)
def test_the_product_holds_under_every_strain(strain: str, tmp_path: Path) -> None:
    only = next((faults for faults, name in _FOUND_BY.values() if name == strain), _AWAY)
    result = perform(Play(301, seconds=60, only=only, strain=strain), tmp_path)
    result.history.write(tmp_path / "history.jsonl")
    assert _against(result, strain) == [], f"{result}\nhistory: {tmp_path}"
