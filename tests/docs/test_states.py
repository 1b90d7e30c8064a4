"""The page of states says what the core says."""

import re

import pytest

from manent_server.domain import deploy
from tests.docs.pages import DOCS

PAGE = (DOCS / "reference" / "states.md").read_text()


def edges() -> set[tuple[str, str]]:
    return set(re.findall(r"^ +(\S+) --> (\S+)$", PAGE, re.MULTILINE))


def table(heading: str) -> list[list[str]]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0] if heading else PAGE
    rows = re.findall(r"^\| (`.*) \|$", section.split("\n## ")[0], re.MULTILINE)
    return [[cell.strip(" `") for cell in row.split("|")] for row in rows]


def test_the_diagram_shows_every_move_and_no_other():
    shown = {edge for edge in edges() if "[*]" not in edge}
    assert shown == {(start, to) for start, ends in deploy.MOVES.items() for to in ends}


def test_the_diagram_shows_the_ends():
    ends = {start for start, to in edges() if to == "[*]"}
    assert ends == set(deploy.State) - deploy.LIVE


def test_every_state_is_explained():
    assert [row[0] for row in table("")] == list(deploy.State)


def test_every_phase_is_explained():
    assert [row[0] for row in table("Phases")] == list(deploy.Phase)


def test_every_outcome_is_explained_under_its_state():
    shown = [(row[0], row[1]) for row in table("Outcomes")]
    assert sorted(shown) == sorted(
        (state.value, outcome.value)
        for state, outcomes in deploy.OUTCOMES.items()
        for outcome in outcomes
    )


@pytest.mark.parametrize("outcome", deploy.Outcome)
def test_every_outcome_has_one_state(outcome):
    assert outcome in deploy.OUTCOMES[deploy.state_of(outcome)]
