"""A block of lines is redacted exactly as each of them would be, and what spans lines too."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.observability import forms
from manent_server.observability.redaction import Redactor

KEY = "-----BEGIN " + "PRIVATE KEY-----"
SECRETS = ("hunter22", "two\nlines", 's3cr3t+/pass w0rd<&">')
FILLER = '2027-01-31 18:00:00 a line of a log that says much & "nothing" at all, 100%\n' * 200


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(["hunter22", "two\nlines"])


@pytest.mark.parametrize(
    "lines",
    [
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
    each = [redactor.redact(line) for line in lines]
    assert redactor.redact("\n".join(lines)).split("\n") == each


def test_a_secret_of_several_lines_becomes_one(redactor: Redactor) -> None:
    assert redactor.redact("a\ntwo\nlines\nb") == "a\n***\nb"


def test_a_key_that_begins_hides_what_follows_in_its_block(redactor: Redactor) -> None:
    assert redactor.redact(f"a\n{KEY} MIIEvQ\nb") == "a\n***"


@pytest.mark.parametrize("form", sorted(forms.of_all(SECRETS, shortest=4)))
def test_a_long_block_hides_what_a_short_one_hides(form: str) -> None:
    """B106: the quick look at a flood lets no form of a secret pass."""
    long = Redactor(SECRETS).redact(f"{FILLER}x {form} y\n{FILLER}")
    assert form not in long.removeprefix(FILLER).removesuffix(FILLER)
    assert "***" in long


@given(st.text(max_size=40), st.binary(max_size=9))
def test_the_quick_look_misses_nothing(text: str, raw: bytes) -> None:
    known = ["abcd", "Zq7%", "\u00fcber", base64.b64encode(raw).decode() or "none"]
    for form in known:
        assert forms.Sieve(known).may_catch(f"{text}{form}{text}" * 9)
