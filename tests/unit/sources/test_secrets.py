import os
from pathlib import Path

import pytest

from manent_server.domain.secret import Secret
from manent_server.sources.secrets import SecretMissing, SecretRefused, Secrets, check


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "token").write_text("s3cr3t+/pass w0rd\n")
    return Secrets({"TOKEN": "from-env-1", "SHORT": "abc", "EMPTY": ""}, tmp_path)


def test_the_two_stores_give_their_values(secrets: Secrets, tmp_path: Path) -> None:
    assert secrets.resolve("secret://env/TOKEN").reveal() == "from-env-1"
    assert secrets.resolve("secret://file/keys/token").reveal() == "s3cr3t+/pass w0rd"
    assert secrets.resolve(f"secret://file/{tmp_path}/keys/token").reveal() == "s3cr3t+/pass w0rd"


@pytest.mark.parametrize(
    ("reference", "word"),
    [
        ("secret://vault/x", "no secret store 'vault'"),
        ("secret://env/", "secret://env/NAME"),
        ("secret://env/A-B", "not the name"),
        ("secret://file/keys#field", "no fields"),
    ],
)
def test_a_reference_that_can_never_be_resolved_is_known_without_looking(
    reference: str, word: str
) -> None:
    assert word in (check(reference) or "")
    assert check("secret://env/ABSENT") is None


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"abcdef", "abcdef"),
        (b"abcdef\n", "abcdef"),
        (b"abcdef\r\n", "abcdef"),
        (b"abcdef\n\n", "abcdef\n"),
        (b"abcdef\r", "abcdef\r"),
        (b" abcdef ", " abcdef "),
        ("sch\N{LATIN SMALL LETTER U WITH DIAERESIS}ssel".encode(), "sch\xfcssel"),
    ],
)
def test_one_newline_at_the_end_is_not_part_of_a_file_secret(
    secrets: Secrets, tmp_path: Path, content: bytes, value: str
) -> None:
    (tmp_path / "s").write_bytes(content)
    assert secrets.resolve("secret://file/s").reveal() == value


def test_a_secret_mounted_by_links_inside_its_folder_is_read(
    secrets: Secrets, tmp_path: Path
) -> None:
    (tmp_path / "mount" / "..data").mkdir(parents=True)
    (tmp_path / "mount" / "..data" / "key").write_text("mounted-value")
    (tmp_path / "mount" / "key").symlink_to("..data/key")
    assert secrets.resolve("secret://file/mount/key").reveal() == "mounted-value"


@pytest.mark.parametrize("reference", ["secret://env/SHORT", "secret://env/EMPTY"])
def test_a_secret_too_short_to_be_masked_is_refused(secrets: Secrets, reference: str) -> None:
    """B106: a too short secret is refused, not silently left readable."""
    with pytest.raises(SecretRefused, match="too short") as refused:
        secrets.resolve(reference)
    assert reference in refused.value.detail
    assert "abc" not in refused.value.detail


@pytest.mark.parametrize(
    ("reference", "kind", "words"),
    [
        ("secret://env/ABSENT", SecretMissing, "secret://env/ABSENT"),
        ("secret://env/BAD-NAME", SecretRefused, "not the name"),
        ("secret://file/absent", SecretMissing, "No such file"),
        ("secret://file//absent/absent", SecretMissing, "No such file"),
        ("secret://file/../outside", SecretRefused, "leads out"),
        ("secret://file/keys", SecretMissing, "not a regular file"),
        ("secret://file/keys/token#field", SecretRefused, "no fields"),
        ("secret://vault/x", SecretRefused, "no secret store 'vault'"),
        ("secret://env/", SecretRefused, "is written"),
        ("secret://env", SecretRefused, "is written"),
        ("secret:env/X", SecretRefused, "is written"),
        ("secret://file/a\0b", SecretRefused, "NUL"),
    ],
)
def test_what_cannot_be_had_is_named_by_store_and_name(
    secrets: Secrets, reference: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as raised:
        secrets.resolve(reference)
    assert words in str(raised.value)
    assert "from-env-1" not in str(raised.value)


def test_a_link_out_of_the_folder_is_refused(secrets: Secrets, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(SecretRefused, match="leads out"):
        secrets.resolve("secret://file/link")


def test_a_file_that_is_large_binary_or_a_pipe_is_refused_without_its_bytes(
    secrets: Secrets, tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(b"x" * (64 * 1024 + 1))
    (tmp_path / "binary").write_bytes(b"hush\xff\xfe")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SecretRefused, match="larger than"):
        secrets.resolve("secret://file/large")
    with pytest.raises(SecretRefused, match="not UTF-8") as refused:
        secrets.resolve("secret://file/binary")
    assert refused.value.__cause__ is None
    assert "hush" not in str(refused.value)
    with pytest.raises(SecretMissing, match="not a regular file"):
        secrets.resolve("secret://file/pipe")


def test_fill_replaces_whole_references_at_any_depth_and_reports_the_values(
    secrets: Secrets,
) -> None:
    options = {
        "environment": {"API": "secret://env/TOKEN", "MODE": "fast"},
        "list": [{"deep": ("secret://file/keys/token", 1, None, True)}],
        "text": "see secret://env/TOKEN",
        "secret://env/TOKEN": "a key stays",
    }
    filled, values = secrets.fill(options)
    token, password = Secret("from-env-1"), Secret("s3cr3t+/pass w0rd")
    assert filled == {
        "environment": {"API": token, "MODE": "fast"},
        "list": [{"deep": [password, 1, None, True]}],
        "text": "see secret://env/TOKEN",
        "secret://env/TOKEN": "a key stays",
    }
    assert values == {token, password}
    assert options["environment"] == {"API": "secret://env/TOKEN", "MODE": "fast"}


def test_a_value_that_looks_like_a_reference_is_not_resolved_again(tmp_path: Path) -> None:
    secrets = Secrets({"A": "secret://env/B", "B": "hidden-value"}, tmp_path)
    assert secrets.fill({"x": "secret://env/A"})[0] == {"x": Secret("secret://env/B")}
