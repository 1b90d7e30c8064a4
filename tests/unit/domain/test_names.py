"""Names at the edge: one normal form, one grammar, nothing cut."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import names
from manent_server.domain.errors import NameInvalid


@pytest.mark.parametrize("text", ["a", "0", "shop", "shop-2.eu_west", "a" * 63])
def test_a_name_is_taken_as_it_is(text: str):
    assert names.name(text, "application") == text


def test_a_name_is_brought_to_one_form():
    assert names.name("ｓｈｏｐ", "application") == "shop"  # noqa: RUF001 - full-width on purpose


@pytest.mark.parametrize(
    "text",
    ["", "Shop", "-a", ".a", "a" * 64, "a b", "shop\n", "shop\x00", "sh\u200bop", "schön", "a/b"],
)
def test_anything_else_is_refused(text: str):
    with pytest.raises(NameInvalid, match="is no valid application") as caught:
        names.name(text, "application")
    assert caught.value.detail.isascii()
    assert caught.value.detail.isprintable()


def test_a_refusal_names_what_is_nearest():
    with pytest.raises(NameInvalid) as caught:
        names.name("Shop", "application", known=["mail", "shop"])
    assert caught.value.next == "did you mean 'shop'?"


@given(st.text(max_size=70))
def test_what_is_taken_follows_the_grammar_and_stays(text: str):
    try:
        form = names.name(text, "application")
    except NameInvalid:
        return
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", form)
    assert names.name(form, "application") == form


@pytest.mark.parametrize("text", ["1", "1.10", "v2+build.3", "0a1b2c3", "A" * 128])
def test_a_version_is_kept_byte_for_byte(text: str):
    assert names.version(text) == text


@pytest.mark.parametrize("text", ["", "-1", "1 0", "1\n", "A" * 129, "１", "1/2"])  # noqa: RUF001 - full-width on purpose
def test_a_version_outside_its_grammar_is_refused(text: str):
    with pytest.raises(NameInvalid, match="is no valid version"):
        names.version(text)


def test_a_digest_is_sixty_four_hexadecimal_digits():
    assert names.sha256("0a" * 32) == "0a" * 32
    for text in ("", "0A" * 32, "0a" * 31, "0a" * 33):
        with pytest.raises(NameInvalid, match="is no valid sha256"):
            names.sha256(text)


def test_nothing_is_near_what_is_like_nothing():
    assert names.nearest("shopp", ["mail", "shop"]) == "shop"
    assert names.nearest("zzz", ["mail", "shop"]) is None
    assert names.nearest("shop", []) is None
