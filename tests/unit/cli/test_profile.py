"""Which server, and as whom."""

import json
import stat

import pytest

from manent_cli.errors import BadUsage
from manent_cli.profile import (
    contexts_path,
    load_contexts,
    new_context,
    resolve,
    save_context,
    use_context,
)

STAGING, PRODUCTION = "http://staging:8420", "https://production.example"


@pytest.fixture
def environ(tmp_path):
    return {"HOME": str(tmp_path)}


@pytest.fixture
def two(environ):
    save_context("production", PRODUCTION, "of-production", environ=environ)
    save_context("staging", STAGING, "of-staging", environ=environ)
    return environ


def asked(environ, **flags):
    found = resolve(environ, **flags)
    return found.url, found.token


def test_a_saved_context_is_current_and_for_its_owner_alone(environ):
    path = save_context("local", STAGING, "t", environ=environ)
    assert path == contexts_path(environ)
    assert json.loads(path.read_text()) == {
        "current": "local",
        "contexts": {"local": {"url": STAGING, "token": "t"}},
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [one.name for one in path.parent.iterdir()] == ["contexts.json"]


def test_saving_keeps_the_other_contexts_and_replaces_the_same(two):
    save_context("staging", STAGING, "renewed", environ=two)
    known = load_contexts(two)
    assert known.current == "staging"
    assert {name: one.token for name, one in known.contexts.items()} == {
        "production": "of-production",
        "staging": "renewed",
    }


def test_a_new_context_never_takes_the_place_of_another(two):
    name, _ = new_context("staging", STAGING, "second", environ=two)
    third, _ = new_context("staging", STAGING, "third", environ=two)
    known = load_contexts(two)
    assert (name, third, known.current) == ("staging-2", "staging-3", "staging-3")
    assert [known.contexts[one].token for one in ("staging", name, third)] == [
        "of-staging",
        "second",
        "third",
    ]


def test_a_readable_file_becomes_private_when_written(two):
    contexts_path(two).chmod(0o644)
    use_context("production", environ=two)
    assert stat.S_IMODE(contexts_path(two).stat().st_mode) == 0o600
    assert load_contexts(two).current == "production"


def test_the_config_folder_can_be_elsewhere(tmp_path, environ):
    environ["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    assert contexts_path(environ) == tmp_path / "xdg" / "manent" / "contexts.json"
    environ["XDG_CONFIG_HOME"] = "not/absolute"
    assert contexts_path(environ) == tmp_path / ".config" / "manent" / "contexts.json"


def test_flag_beats_environment_beats_file(two):
    assert asked(two) == (STAGING, "of-staging")
    two["MANENT_CONTEXT"] = "production"
    assert asked(two) == (PRODUCTION, "of-production")
    assert asked(two, context="staging") == (STAGING, "of-staging")
    two |= {"MANENT_URL": "http://other", "MANENT_TOKEN": "of-other"}
    assert asked(two) == ("http://other", "of-other")
    assert asked(two, context="staging") == (STAGING, "of-staging")
    assert asked(two, url="http://flag") == ("http://flag", "of-other")


def test_a_kept_token_is_sent_to_no_other_server(two):
    assert asked({**two, "MANENT_URL": "http://evil"}) == ("http://evil", None)
    assert asked(two, url="http://evil") == ("http://evil", None)
    assert asked(two, url=PRODUCTION + "/") == (PRODUCTION + "/", "of-production")


def test_a_token_of_the_environment_goes_to_a_context_without_one(two):
    save_context("bare", "http://bare", None, environ=two)
    two |= {"MANENT_TOKEN": "given"}
    assert asked(two, context="bare") == ("http://bare", "given")
    assert asked(two, context="staging") == (STAGING, "of-staging")


def test_empty_variables_are_as_good_as_unset(two):
    two |= {"MANENT_URL": "", "MANENT_TOKEN": "", "MANENT_TOKEN_FILE": "", "MANENT_CONTEXT": ""}
    assert asked(two) == (STAGING, "of-staging")


def test_a_token_file_is_read_and_the_token_itself_wins(environ, tmp_path):
    file = tmp_path / "token"
    file.write_text("of-file\n")
    environ |= {"MANENT_URL": STAGING, "MANENT_TOKEN_FILE": str(file)}
    assert asked(environ) == (STAGING, "of-file")
    assert asked({**environ, "MANENT_TOKEN": "direct"}) == (STAGING, "direct")


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe", b"two words", b"a\nb"])
def test_a_token_file_that_cannot_be_used_is_refused_without_its_content(
    environ, tmp_path, content
):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadUsage) as refused:
        resolve({**environ, "MANENT_URL": STAGING, "MANENT_TOKEN_FILE": str(file)})
    assert str(file) in refused.value.what
    assert "words" not in refused.value.what


@pytest.mark.parametrize("token", ["a b", "a\r\nX-Evil: 1", "ü", "a\x00"])
def test_a_token_that_could_write_headers_is_refused(environ, token):
    with pytest.raises(BadUsage) as refused:
        resolve({**environ, "MANENT_URL": STAGING, "MANENT_TOKEN": token})
    assert token not in str(refused.value.body())


def test_no_server_and_two_servers_are_refused(two, tmp_path):
    with pytest.raises(BadUsage, match="no server"):
        resolve({"HOME": str(tmp_path / "empty")})
    with pytest.raises(BadUsage, match="two servers"):
        resolve(two, context="staging", url=STAGING)


def test_an_unknown_context_is_told_with_the_known_ones(two):
    with pytest.raises(BadUsage) as refused:
        resolve(two, context="stagin")
    assert "production, staging" in refused.value.next


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"contexts": []}', '{"contexts": {"a": 1}}', '{"contexts": {"a": {}}}'],
)
def test_a_file_that_is_no_contexts_file_is_named(environ, content):
    path = contexts_path(environ)
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(BadUsage, match=r"contexts\.json"):
        load_contexts(environ)


def test_a_connection_never_shows_its_token(two):
    assert "of-staging" not in repr(resolve(two))
    assert "of-staging" not in repr(load_contexts(two))
