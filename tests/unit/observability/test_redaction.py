"""No secret, in whatever form a program prints it, gets past the redactor."""

import base64
import html
import json
import re
import shlex
import time
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain.errors import Invalid
from manent_server.observability.redaction import MASK, Redactor

SECRET = "s3cr3t+/pass w0rd"  # noqa: S105 - planted
PEM = (
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBszCCAVmgAwIBAgIUQ9y+/0hq\n"
    "ZXhhbXBsZSBvbmx5IG5vdCByZWFs\n"
    "-----END CERTIFICATE-----\n"
)
# No star: the mask itself is made of them. At least one character that no escape changes.
SECRETS = st.text(
    st.characters(blacklist_characters="*", blacklist_categories=["Cs"]), min_size=4, max_size=24
).filter(lambda text: len(text.strip()) >= 4)
AROUND = st.text(st.characters(blacklist_characters="*", blacklist_categories=["Cs"]), max_size=30)


def spellings(secret: str) -> dict[str, str]:
    raw = secret.encode()
    return {
        "plain": secret,
        "base64": base64.b64encode(raw).decode().rstrip("="),
        "base64 url": base64.urlsafe_b64encode(raw).decode().rstrip("="),
        "url": urllib.parse.quote(secret),
        "url all": urllib.parse.quote(secret, safe=""),
        "url lower": re.sub(
            "%..", lambda found: found[0].lower(), urllib.parse.quote(secret, safe="")
        ),
        "form": urllib.parse.quote_plus(secret),
        "json": json.dumps(secret)[1:-1],
        "json unicode": json.dumps(secret, ensure_ascii=False)[1:-1],
        "json in json": json.dumps(json.dumps(secret)[1:-1])[1:-1],
        "xml": html.escape(secret),
        "xml bare": html.escape(secret, quote=False),
        "python": repr(secret)[1:-1],
        "python bytes": repr(raw)[2:-1],
        "shell": shlex.quote(secret).strip("'"),
        "hex": raw.hex(),
        "hex upper": raw.hex().upper(),
        "percent": "".join(f"%{byte:02X}" for byte in raw),
    }


@pytest.mark.parametrize("form", sorted(spellings(SECRET)))
@pytest.mark.parametrize("secret", [SECRET, "pa$USER#w{x}%@/:", 'it\'s "quoted" & <tagged>'])
def test_every_spelling_of_a_secret_is_masked(secret: str, form: str) -> None:
    """B106: encoded forms of a secret are masked."""
    spelt = spellings(secret)[form]

    shown = Redactor([secret]).redact(f"before {spelt} after")

    assert shown == f"before {MASK} after"


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_base64_at_any_offset_is_masked(offset: int) -> None:
    """B106: base64 is masked in each of its three alignments."""
    text = base64.b64encode(b"user:"[: offset + 1] + SECRET.encode() + b"!tail").decode()

    shown = Redactor([SECRET]).redact(text)

    assert MASK in shown
    for begin in range(3):
        middle = base64.b64encode(b"\0" * begin + SECRET.encode()).decode()[4:-4]
        assert middle not in shown


def test_wrapped_base64_is_masked_line_by_line() -> None:
    secret = "".join(chr(33 + number % 90) for number in range(300))
    wrapped = base64.encodebytes(secret.encode()).decode()

    shown = Redactor([secret]).redact(wrapped)

    assert set(shown.replace("=", "").split()) == {MASK}


def test_each_line_of_a_secret_of_several_lines_is_masked() -> None:
    """B106: a PEM is masked also when it is printed a line at a time."""
    redactor = Redactor([PEM])

    assert [redactor.redact(line) for line in PEM.splitlines()] == [MASK] * 4


def test_a_secret_file_that_ends_in_a_newline_is_masked_without_it() -> None:
    assert Redactor(["hunter22\n"]).redact("-> hunter22.") == f"-> {MASK}."


@pytest.mark.parametrize("short", ["abc", "", "ab\n\n\n", "   a   "])
def test_a_secret_too_short_to_mask_is_refused(short: str) -> None:
    """B106: a secret of three letters is refused, not silently ignored."""
    redactor = Redactor()

    with pytest.raises(Invalid, match="too short") as refused:
        redactor.add(["long enough", short])

    assert refused.value.code == "secret_too_short"
    assert redactor.redact("long enough") == "long enough"


def test_the_longer_of_two_secrets_wins() -> None:
    redactor = Redactor(["token-1", "token-1-and-more"])

    assert redactor.redact("<token-1-and-more> <token-1>") == f"<{MASK}> <{MASK}>"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://manent:hunter2@db/manent", "postgresql://manent:***@db/manent"),
        ("https://user:p@ss@host/x", "https://user:***@host/x"),
        ("https://host:8080/x?a=b", "https://host:8080/x?a=b"),
        ("https://host/a:b@c", "https://host/a:b@c"),
        ("https://ghp_abc@host/x", "https://***@host/x"),
        ("http://a-b.c@host", "http://***@host"),
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("https://host/a@b http://host?c@d", "https://host/a@b http://host?c@d"),
        ("mnt_s_" + "a" * 49, MASK),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nx", f"{MASK}\nx"),
        ("-----BEGIN PRIVATE KEY-----\ncut off", MASK),
    ],
)
def test_what_looks_like_a_secret_is_masked_unknown(text: str, shown: str) -> None:
    """B108: a database URL with a password is masked before anybody registers it."""
    assert Redactor().redact(text) == shown


def test_json_values_are_redacted_in_keys_texts_and_numbers() -> None:
    redactor = Redactor(["hunter22", "12345678"])
    value = {
        "hunter22": ["x hunter22", {"pin": 12345678, "n": 1, "f": 1.5, "b": True, "none": None}],
        "api_key": "whatever",
        "db.password": "whatever",
        "token": 5,
        "tokens": "kept",
    }

    assert redactor.redact_value(value) == {
        MASK: [f"x {MASK}", {"pin": MASK, "n": 1, "f": 1.5, "b": True, "none": None}],
        "api_key": MASK,
        "db.password": MASK,
        "token": 5,
        "tokens": "kept",
    }


@given(secrets=st.lists(SECRETS, min_size=1, max_size=4), around=AROUND, data=st.data())
def test_no_planted_secret_survives(secrets: list[str], around: str, data: st.DataObject) -> None:
    """B106: whatever the secrets and whatever stands around them."""
    secret = data.draw(st.sampled_from(secrets))
    spelt = data.draw(st.sampled_from(sorted(spellings(secret).values())))

    shown = Redactor(secrets).redact(f"{around} {spelt} {around}")

    assert not any(known in shown for known in secrets)
    if len(spelt) >= 4:
        assert spelt not in shown


@given(secrets=st.lists(SECRETS, min_size=1, max_size=3), around=AROUND, data=st.data())
def test_chunking_changes_nothing(secrets: list[str], around: str, data: st.DataObject) -> None:
    """B106: a secret cut in two by a chunk border is found like a whole one."""
    redactor = Redactor(secrets)
    planted = [data.draw(st.sampled_from(sorted(spellings(s).values()))) for s in secrets]
    text = around.join(["", *planted, ""])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    stream = redactor.stream()

    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shown = "".join(stream.feed(piece) for piece in pieces) + stream.close()

    assert not any(known in shown for known in secrets)
    assert shown == redactor.redact(text)


def test_a_stream_holds_back_only_what_may_be_a_secret() -> None:
    stream = Redactor(["hunter22"]).stream()

    assert stream.feed("nothing here ") == "nothing here "
    assert stream.feed("then hunt") == "then "
    assert stream.feed("ing") == "hunting"
    assert stream.feed(" hunter2") == " "
    assert stream.feed("2!") == f"{MASK}!"
    assert stream.close() == ""


def test_learning_the_same_values_again_costs_nothing() -> None:
    redactor = Redactor(["hunter22"])
    before = redactor._pattern

    redactor.add(["hunter22"])

    assert redactor._pattern is before


def test_many_secrets_do_not_slow_a_log_down() -> None:
    """B102: a hundred secrets cost well under a tenth of a millisecond a line."""
    redactor = Redactor(f"Secret-{number}-{number * 7919:x}-value" for number in range(100))
    line = "2027-01-31T18:00:00Z copying file 12345 of 67890 to /srv/shop/releases/v1 ... done " * 2
    began = time.process_time()

    for _unused in range(1000):
        redactor.redact(line)

    assert time.process_time() - began < 1.0
