"""What a host says about plugins and their options."""

from typing import Any

import pluggy
import pytest
from pydantic import Field, SecretStr

from manent_server.domain.errors import ConfigurationError, NotFound
from manent_server.plugins.host import Host, Plugin
from manent_server.plugins.target import Target
from manent_server.sdk import Options, Template, hookimpl, hooks


class Health(Options):
    url: str
    tries: int = 3
    keys: dict[str, SecretStr] | None = None


class Mine(Options):
    root: Template
    health: Health | None = None
    check: Health = Health(url="")
    keep: int = Field(default=3, alias="keep-releases")


class Module:
    @hookimpl
    def deploy(self, context: Any) -> None:
        """Do nothing."""

    @hookimpl
    def options(self) -> type[Options]:
        return Mine

    @hookimpl
    def effects(self, options: Any) -> str:
        return "once" if options is not None and options.keep == 1 else "idempotent"


def plugin(module: Any) -> Plugin:
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(module)
    target = Target("mine", manager)
    return Plugin(name="mine", build="1", hooks=target.hooks, effects="idempotent", target=target)


@pytest.fixture
def host() -> Host:
    return Host({"mine": plugin(Module())}, {"bad": "no such luck"})


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        ({}, ("root", "is required")),
        ({"rot": 1}, ("rot", "unknown key; nearest is root")),
        ({"keep-release": 1}, ("keep-release", "unknown key; nearest is keep-releases")),
        ({"check": {"url": "", "trys": 1}}, ("check.trys", "unknown key; nearest is tries")),
        ({"health": {"url": "", "trys": 1}}, ("health.trys", "unknown key; nearest is tries")),
        ({"root": 1}, ("root", "input should be a valid string")),
    ],
)
def test_wrong_options_are_found_with_their_path_and_the_nearest_key(
    host: Host, options: dict[str, Any], finding: tuple[str, str]
) -> None:
    assert finding in host.check_options("mine", options)


def test_right_options_have_no_finding(host: Host) -> None:
    assert host.check_options("mine", {"root": "/srv", "keep-releases": 1}) == []


def test_a_secret_option_takes_references_alone(host: Host) -> None:
    """I18: what stands in the options stands in the order of every deploy."""
    keys = {"a": "secret://env/A", "b": "config://b"}
    assert host.check_options("mine", {"root": "/", "health": {"url": "", "keys": keys}}) == []
    wrong = {"root": "/", "health": {"url": "", "keys": keys | {"c": "hunter2"}}}
    [(path, message)] = host.check_options("mine", wrong)
    assert (path, "secret://env/NAME" in message) == ("health.keys", True)
    assert "hunter2" not in message


def test_options_decide_the_effects(host: Host) -> None:
    mine = host.plugin("mine")
    assert mine.effects_of({"root": "/", "keep-releases": 1}) == "once"
    assert mine.effects_of({"root": "/"}) == "idempotent"


def test_a_plugin_without_a_model_takes_any_options() -> None:
    class Bare:
        @hookimpl
        def deploy(self, context: Any) -> None:
            """Do nothing."""

    bare = plugin(Bare())
    assert bare.check_options({"a": 1}) == []
    assert bare.hook_for("rollback") == "deploy"
    assert bare.hook_for("verify") is None


def test_a_broken_and_an_unknown_plugin_are_told_apart(host: Host) -> None:
    with pytest.raises(ConfigurationError, match="bad is broken: no such luck"):
        host.plugin("bad")
    with pytest.raises(NotFound, match="no plugin mime; nearest is mine"):
        host.check_options("mime", {})
    assert host.names() == {"mine"}
