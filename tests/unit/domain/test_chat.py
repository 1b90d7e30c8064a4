"""Chats: ballots, and what is shown."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from manent_server.domain.chat import Ballot, Card, Heard, Question, ballot, lines, plain

GOOD = {"approval": "a1", "digest": "d1", "decision": "approve"}
QUESTION = Question(
    id="a1",
    rule="release",
    digest="d1",
    quorum=2,
    votes=["ann approved"],
    expires_at=datetime(2027, 1, 2, 3, 4, tzinfo=UTC),
    is_open=True,
    state="1 of 2",
)
CARD = Card(
    key="d1",
    digest="x",
    title="deploy shop",
    facts=[("Application", "shop"), ("Reason", "")],
    questions=[QUESTION, replace(QUESTION, id="a2", votes=[], expires_at=None, is_open=False)],
    outcome=None,
    link="https://manent.example/d1",
)


def test_a_ballot_is_read_as_it_was_written():
    made = ballot(GOOD)
    assert made == Ballot("a1", "d1", "approve")
    assert made.values() == GOOD


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        "approve",
        {},
        GOOD | {"decision": "bypass"},
        GOOD | {"decision": ["approve"]},
        GOOD | {"approval": 1},
        GOOD | {"approval": ""},
        GOOD | {"digest": "x" * 301},
    ],
)
def test_what_is_no_ballot_is_none(wrong: Any):
    assert ballot(wrong) is None


def test_a_place_is_known_by_its_names():
    heard = Heard("u", place=(("trigger", "t1"),))
    assert (heard.at("trigger"), heard.at("channel")) == ("t1", "")
    assert heard.whisper().at("is_private")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\ntwo\t three ", "one two three"),
        ("\u202egnp.exe", "gnp.exe"),
        ("a\u200bb\x00c\u2066d", "abcd"),
        ("\ud800x", "x"),
        ("x" * 500, "x" * 299 + "…"),
    ],
)
def test_texts_are_shown_as_one_visible_line(text: str, shown: str):
    assert plain(text) == shown


def test_a_card_shows_what_there_is():
    assert lines(CARD) == [
        ("Application", "shop"),
        ("Approval release", "1 of 2: ann approved, until 2027-01-02 03:04 UTC"),
        ("Approval release", "1 of 2: nobody yet"),
    ]
    assert lines(replace(CARD, questions=[], outcome="SUCCESS"))[-1] == ("Outcome", "SUCCESS")
    assert CARD.asked == [QUESTION]
