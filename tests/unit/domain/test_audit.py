"""The text of a record and its chain."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import audit
from manent_server.domain.audit import GENESIS, Head, Known, Link, Walk

AT = datetime(2027, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
HEAD = Head("r1", AT, "ann", "lock.set", None, "shop", None)
PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


def chain(*texts: str) -> list[Link]:
    found, last = [], GENESIS
    for number, text in enumerate(texts, 1):
        last = audit.link(last, number, text)
        found.append(Link(number, last, text, HEAD.text()))
    return found


def walk(places: list[Link], known: Known | None = None) -> str | None:
    """What both ways of going say; many at once."""
    one, many = Walk(known), Walk(known)
    broken = next(filter(None, map(one.step, places)), None) or one.end()
    assert (many.along(places) or many.end()) == broken
    return f"{broken.kind} {broken.number}" if broken else None


TEXT = audit.text(HEAD, {"detail": {"b": 1, "a": ["ü"]}, "before": None})


def test_the_text_has_its_members_in_one_order_and_no_empty_one():
    assert TEXT == (
        '{"id":"r1","at":"2027-03-01T12:00:00.000005Z","actor":"ann","action":"lock.set",'
        '"application":"shop","detail":{"a":["ü"],"b":1}}'
    )


def test_the_hash_can_be_made_by_anybody():
    """As the page says: sha256 of three lines."""
    said = hashlib.sha256(f"{GENESIS}\n1\n{TEXT}".encode()).hexdigest()
    assert audit.link(GENESIS, 1, TEXT) == said


@given(
    st.builds(Head, PLAIN, st.just(AT), PLAIN, PLAIN, *[st.none() | PLAIN] * 3),
    st.dictionaries(
        st.sampled_from(["channel", "address", "detail", "before", "after"]),
        st.none() | PLAIN | st.dictionaries(PLAIN, PLAIN, max_size=2),
    ),
)
def test_every_text_says_what_was_put_in(head: Head, rest: dict[str, Any]):
    text = audit.text(head, rest)
    found = audit.parse(text)
    given_ = {name: getattr(head, name) for name in Head.__slots__} | rest
    assert {k: v for k, v in found.items() if v is not None} == {
        k: audit.instant(v) if k == "at" else v for k, v in given_.items() if v is not None
    }
    assert json.loads(text)["id"] == head.id
    assert audit.begins(text, head.text())


@pytest.mark.parametrize(
    "change",
    [{"actor": "bob"}, {"application": None}, {"deploy": "d1"}, {"id": "r2"}, {"at": AT.max}],
)
def test_a_changed_column_does_not_begin_the_text(change: dict[str, Any]):
    changed = {"at": AT.replace(year=2028)} if "at" in change else change
    assert not audit.begins(TEXT, replace(HEAD, **changed).text())


def test_a_whole_chain_has_no_break():
    places = chain(TEXT, TEXT, TEXT)
    assert walk(places) is None
    assert walk(places, Known(2, places[1].hash)) is None


def test_each_break_is_named_with_its_first_place():
    one, two, three, four = chain(TEXT, TEXT, TEXT, TEXT)
    other = TEXT.replace("ann", "bob")
    assert walk([one, three]) == "hole 2"
    assert walk([two]) == "hole 1"
    assert walk([one, two._replace(text=other), three]) == "changed 2"
    assert walk([one, two._replace(hash="f" * 64), three]) == "changed 2"
    assert walk([one, two, three._replace(head=replace(HEAD, actor="bob").text())]) == "changed 3"
    assert walk([one, two._replace(head=audit.NO_BEGINNING, text=None)]) == "missing 2"
    assert walk([one, three._replace(number=2), two._replace(number=3), four]) == "changed 2"


def test_a_beginning_that_was_written_in_another_way_is_asked_for_once_more():
    one, two = chain(TEXT, TEXT)
    escaped = two._replace(head=two.head.replace("ann", "\\u0061nn"))
    assert Walk(ask={2: two.head}.__getitem__).along([one, escaped]) is None
    assert walk([one, escaped]) == "changed 2"


def test_a_value_that_is_no_text_is_not_what_a_text_says():
    assert not audit.begins(TEXT, audit.beginning(("r1", "", b"ann", "lock.set", *[None] * 3)))


def test_what_was_kept_elsewhere_tells_of_a_chain_made_anew():
    places, other = chain(TEXT, TEXT), chain(TEXT, TEXT.replace("ü", "u"))
    assert walk(other, Known(2, places[1].hash)) == "rewritten 2"
    assert walk(places[:1], Known(2, places[1].hash)) == "cut 2"
