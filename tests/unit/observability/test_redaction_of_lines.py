"""Many lines at once are redacted exactly as each of them would be."""

import pytest

from manent_server.observability.redaction import Redactor

KEY = "-----BEGIN " + "PRIVATE KEY-----"


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(["hunter22", "two\nlines"])


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [""],
        ["", ""],
        ["nothing to hide", "here either", "https://host/path"],
        ["first", "the password is hunter22", "last"],
        ["postgresql://me:word@host/x", "plain"],
        ["lines of a secret: lines", "two of them: two"],
        ["hunt", "er22"],
    ],
)
def test_as_each_line_alone(redactor: Redactor, lines: list[str]) -> None:
    each = [part for line in lines for part in redactor.redact(line).split("\n")]
    assert redactor.redact_lines(lines) == each


def test_a_key_that_begins_hides_its_own_line_and_not_the_ones_behind(redactor: Redactor) -> None:
    assert redactor.redact_lines(["a", f"{KEY} MIIEvQ", "b"]) == ["a", "***", "b"]


def test_a_line_with_breaks_becomes_several(redactor: Redactor) -> None:
    assert redactor.redact_lines(["a\nb", "c"]) == ["a", "b", "c"]
    assert redactor.redact_lines(["a\nhunter22", "c"]) == ["a", "***", "c"]
