"""What is written as YAML is read back as the same, by a reader of its own."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from manent_cli.yaml_text import dump

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20
)


@given(VALUES)
def test_a_reader_gets_back_what_was_written(value):
    assert yaml.safe_load(dump(value)) == value


@pytest.mark.parametrize("number", [1e16, 1.5, -1e-7, 1e300, 5e-324, 0.0, 2**70])
def test_a_number_stays_a_number(number):
    assert yaml.safe_load(dump({"n": number})) == {"n": number}


@pytest.mark.parametrize(
    "text",
    ["1.10", "72225e2", "012", "1_000", "2027-01-02", "no", "12:30", "~", "null", "0x1f", "-v1",
     "Yes", "off", ".5", "1e3", "=", "<<", "y", "N", "é", "a: b", "# x", "- x", "", " x "],
)  # fmt: skip
def test_a_version_stays_a_text(text):
    """B114: 1.10 becomes 1.1, commit 72225e2 becomes a number."""
    assert yaml.safe_load(dump({"version": text})) == {"version": text}


def test_plain_words_stay_readable():
    value = {"items": [{"application": "shop", "state": "SUCCESS", "error": None, "pass": 1}]}
    assert dump(value) == (
        "items:\n  - application: shop\n    state: SUCCESS\n    error: null\n    pass: 1\n"
    )
    assert dump({"items": []}) == "items: []\n"
    assert dump([[1, 2], {}]) == "- - 1\n  - 2\n- {}\n"
