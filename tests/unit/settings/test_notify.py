"""`notify`: who is told what happens."""

from datetime import timedelta

import pytest

from manent_server.domain.secret import Secret
from tests.unit.settings.conftest import Errors, Load

SINK = "plugin: webhook, url: https://hooks.example/in, secret: secret://env/S"


def test_a_sink_has_defaults(load: Load) -> None:
    hook = load(f"notify: {{board: {{{SINK}}}}}").notify["board"]

    assert (hook.secret, hook.events) == ((Secret("secret://env/S"),), ("deploy.*",))
    assert (hook.applications, hook.environments, hook.allow_networks) == ((), (), ())
    assert (hook.timeout, hook.retry.total) == (timedelta(seconds=10), timedelta(hours=24))


def test_a_secret_can_be_exchanged(load: Load) -> None:
    text = SINK.replace("secret://env/S", "[secret://env/NEW, secret://env/OLD]")
    hook = load(f"notify: {{board: {{{text}}}}}").notify["board"]
    assert hook.secret == (Secret("secret://env/NEW"), Secret("secret://env/OLD"))


def test_neither_address_nor_secret_is_printed(load: Load) -> None:
    text = SINK.replace("secret://env/S", "whsec_aHVudGVyMjI=").replace("/in", "/hunter22")
    shown = repr(load(f"notify: {{board: {{{text}}}}}"))
    assert "hunter22" not in shown
    assert "aHVudGVyMjI" not in shown


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://hooks.example/", "must be a URL"),
        ("https://a_b.example/", "must be a URL"),
        ("https://hooks.example:99999/", "must be a URL"),
        ("https:///in", "must be a URL"),
        ("https://hooks.example/ä", "must be a URL"),
        ("https://hooks.example:0/", "must be a URL"),
        ("https://user:pw@hooks.example/", "must not hold a user"),
        ("https://hooks.example/#a", "from # on"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, words: str, errors: Errors) -> None:
    text = SINK.replace("https://hooks.example/in", f'"{url}"')
    [found] = errors(f"notify: {{board: {{{text}}}}}")
    assert found["path"] == "notify.board.url"
    assert words in found["message"]


@pytest.mark.parametrize(
    ("more", "path", "words"),
    [
        ("events: [deploy.endd]", "events[0]", "did you mean deploy.ended?"),
        ("events: [deploi.*]", "events[0]", "no event is called so"),
        ("events: []", "events", "must have at least 1"),
        ("allow_networks: [10.0.0.1/8]", "allow_networks[0]", "no bit of it beyond its mask"),
        ("allow_networks: [224.0.0.0/4]", "allow_networks[0]", "multicast"),
        ("colour: red", "colour", "unknown key"),
    ],
)
def test_what_cannot_be_meant_is_refused(more: str, path: str, words: str, errors: Errors) -> None:
    [found] = errors(f"notify: {{board: {{{SINK}, {more}}}}}")
    assert found["path"] == f"notify.board.{path}"
    assert words in found["message"]


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (f"notify: {{plugins: {{{SINK}}}}}", "notify.plugins", "choose another"),
        ("notify: {board: {plugin: slack}}", "notify.board.plugin", "must be one of webhook"),
        (
            "notify: {board: {" + SINK.replace("secret://env/S", "hunter22") + "}}",
            "notify.board.secret",
            "must be secret://env/NAME",
        ),
    ],
)
def test_a_sink_that_is_none_is_refused(text: str, path: str, words: str, errors: Errors) -> None:
    found = {one["path"]: one["message"] for one in errors(text)}
    assert words in found[path]
    assert "hunter22" not in str(found)
