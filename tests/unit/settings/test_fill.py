"""Placeholders filled in at prepare."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.settings.fill import check, fill

VALUES = {"application": "shop", "environment": "prod", "target": "web-1", "version": "1.10+b"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("/srv/{application}/{version}", "/srv/shop/1.10+b"),
        ("{environment}{target}", "prodweb-1"),
        ("{{application}}", "{application}"),
        ("{{{application}}}", "{shop}"),
        ("{{", "{"),
        ("a } b", "a } b"),
        ('{{"v": "{version}"}}', '{"v": "1.10+b"}'),
        ("", ""),
    ],
)
def test_placeholders_are_filled_in_and_double_braces_are_braces(text: str, filled: str) -> None:
    assert fill(text, **VALUES) == filled
    assert check(text) is None


@pytest.mark.parametrize("text", ["{", "{x}", "{}", "{ version }", "{version.__class__}", "{0}"])
def test_an_unknown_placeholder_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no placeholder; known are \{application\}"):
        fill(text, **VALUES)
    assert check(text) is not None


@given(st.text(), st.text())
def test_a_value_is_never_filled_in_again(text: str, version: str) -> None:
    escaped = text.replace("{", "{{").replace("}", "}}")
    found = fill(escaped + "{version}", **{**VALUES, "version": version})
    assert found == text + version
