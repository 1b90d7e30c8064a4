"""What a bare word in the file means."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.settings import Placement
from manent_server.settings.node import Place, Scalar
from manent_server.settings.scalars import exact, kind_of
from tests.unit.settings.conftest import BASE, Errors

SHOP = """applications:
  shop: {plugin: p, targets: {a: {}}, environments: {staging: {}}, options: {version: %s}}
"""


def options(text: str) -> str:
    return f"{{plugin: p, targets: {{a: {{}}}}, options: {text}}}"


@pytest.mark.parametrize("text", ["1_000", "2027-01-02", "no", "12:30", "yes", "on", "off", "y"])
def test_yaml_1_1_specials_are_the_text_written(
    text: str, placed: Callable[..., Placement]
) -> None:
    """B114: what only YAML 1.1 reads as something else stays the exact text."""
    found = placed(options(f"{{version: {text}}}"))
    assert found.targets["a"] == {"version": text}


@pytest.mark.parametrize(
    "text",
    [
        "1.10",
        "72225e2",
        "012",
        "0777",
        "00",
        "-012",
        "01.5",
        "1e3",
        "0x1F",
        "0o17",
        "+5",
        "1.0e5",
        ".5",
        "5.",
        ".inf",
        "-.INF",
        ".nan",
        "12345678901234567890",
    ],
)
def test_a_number_that_would_be_printed_otherwise_is_refused(text: str, errors: Errors) -> None:
    """B114: file, line and 'quote it', never another version."""
    [found] = errors(BASE + SHOP % text)
    assert (found["file"], found["line"]) == ("manent.yml", 6)
    assert found["path"] == "applications.shop.options.version"
    assert found["layer"] == "applications.shop"
    assert "quote it" in found["message"]
    assert text in found["message"]


@pytest.mark.parametrize("text", ["'1.10'", '"012"', "!!str 72225e2", "1.10.0", "v1.10", "0.1.0"])
def test_quoted_and_worded_versions_stay(text: str, placed: Callable[..., Placement]) -> None:
    """B114: the exact text."""
    found = placed(options(f"{{version: {text}}}"))
    assert found.targets["a"]["version"] == text.removeprefix("!!str ").strip("'\"")


def test_plain_values_keep_their_type(placed: Callable[..., Placement]) -> None:
    written = "{a: 3, b: 1.5, c: true, d: null, e: [1, {f: x}], g: ~, h: False, i: -7}"
    found = placed(options(written))
    assert found.targets["a"] == {
        "a": 3,
        "b": 1.5,
        "c": True,
        "d": None,
        "e": [1, {"f": "x"}],
        "g": None,
        "h": False,
        "i": -7,
    }


@pytest.mark.parametrize("text", ["10", "1.10", "012", "true", "0x10"])
def test_a_number_or_boolean_where_text_is_wanted_is_refused(text: str, errors: Errors) -> None:
    """B114: also for keys with a type."""
    [found] = errors(f"executor_id: {text}")
    assert (found["line"], found["path"]) == (1, "executor_id")
    assert "quote it" in found["message"]


@pytest.mark.parametrize("key", ["1", "1.10", "012", "true", "null", "~", "72225e2"])
def test_a_key_must_be_text(key: str, errors: Errors) -> None:
    """B114: a number as a name is refused with its line."""
    found = errors(f"environments:\n  {key}: {{tier: staging}}")
    assert {error["line"] for error in found} == {2}
    assert any("quote it" in error["message"] for error in found)


@given(st.from_regex(r"[-+0-9._eExXo]{1,24}", fullmatch=True))
def test_a_number_is_kept_as_written_or_refused(text: str) -> None:
    """B114: no spelling of a number changes silently."""
    scalar = Scalar(Place("x", 1), (), text, kind_of(text))
    with suppress(ValueError):
        assert str(exact(scalar)) == text
