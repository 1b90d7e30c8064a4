"""The checkers of the record pass a whole one and catch one that was spoilt by hand."""

import json
from collections.abc import Callable

import pytest

from manent_server.domain.audit import GENESIS, link
from tests.chaos import checkers, history
from tests.chaos.build import Story, good


def complaints(story: Story) -> set[str]:
    return {violation.invariant for violation in checkers.check(story.history)}


def _chain(story: Story, *texts: str) -> None:
    last = GENESIS
    for number, text in enumerate(texts, 1):
        last = link(last, number, text)
        story.history.records.append({"number": number, "hash": last, "text": text})


def _recorded(story: Story) -> list[str]:
    """The records of everything the story's deploys went through."""
    return [
        json.dumps({"deploy": row["id"], "action": f"deploy.{word}"})
        for row in story.history.deploys
        for word in ("requested", "ended")
        if word == "requested" or row["state"] in history.ENDED
    ]


def test_a_whole_record_passes() -> None:
    story = good()
    _chain(story, *_recorded(story))
    assert complaints(story) == set()


def a_hole_in_the_chain(story: Story) -> None:
    _chain(story, *_recorded(story))
    del story.history.records[1]


def a_record_that_was_changed(story: Story) -> None:
    _chain(story, *_recorded(story))
    story.history.records[1]["text"] += " "


def an_end_off_the_record(story: Story) -> None:
    _chain(story, *_recorded(story)[:-1])


def a_request_twice_on_record(story: Story) -> None:
    _chain(story, *_recorded(story), _recorded(story)[0])


def a_record_without_a_number(story: Story) -> None:
    _chain(story, *_recorded(story))
    story.history.settings["unchained"] = 1


SPOILT: list[Callable[[Story], None]] = [
    a_hole_in_the_chain,
    a_record_that_was_changed,
    an_end_off_the_record,
    a_request_twice_on_record,
    a_record_without_a_number,
]


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_spoilt_record_is_caught(spoil: Callable[[Story], None]) -> None:
    story = good()
    spoil(story)
    assert complaints(story) == {"I12"}
