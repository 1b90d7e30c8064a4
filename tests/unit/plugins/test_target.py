"""One plugin acts, wrappers wrap, and what comes out is checked."""

import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pluggy
import pytest

from manent_server.plugins import discovery
from manent_server.plugins.discovery import Found
from manent_server.plugins.target import Target
from manent_server.sdk import HookFailure, Observation, Options, PermanentFailure, hookimpl, hooks


class Size(Options):
    size: int = 1


class Plugin:
    """Answers what it is told to."""

    answer: Any = None

    @hookimpl
    def deploy(self, context: Any) -> Any:
        return self.answer

    @hookimpl
    def verify(self) -> Any:
        return self.answer

    @hookimpl
    def observe(self, context: Any) -> Any:
        return self.answer

    @hookimpl
    def plan(self, context: Any) -> Any:
        return self.answer

    @hookimpl
    def options(self) -> Any:
        return Size

    @hookimpl
    def effects(self, options: Any) -> Any:
        return "once" if options is not None and options.size > 1 else None


class Wrapper:
    """Notes every deploy."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @hookimpl(wrapper=True)
    def deploy(self, context: Any) -> Iterator[None]:
        result = yield
        self.seen.append(result)
        return {**result, "wrapped": True}


class Entry(SimpleNamespace):
    """An announced plugin."""

    dist = None

    def __hash__(self) -> int:
        return hash(self.name)

    def load(self) -> Any:
        if isinstance(self.loaded, BaseException):
            raise self.loaded
        return self.loaded


def find(monkeypatch: pytest.MonkeyPatch, **plugins: Any) -> Found:
    entries = [Entry(name=name, value=name, loaded=loaded) for name, loaded in plugins.items()]
    monkeypatch.setattr(discovery, "entry_points", lambda group: entries)
    return discovery.find()


def target(plugin: Any, *wrappers: Any) -> Target:
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    for one in (plugin, *wrappers):
        manager.register(one)
    return Target("mine", manager)


def answering(answer: Any) -> Target:
    plugin = Plugin()
    plugin.answer = answer
    return target(plugin)


@pytest.mark.parametrize(
    ("hook", "answer", "outputs"),
    [
        ("deploy", None, None),
        ("deploy", {"a": 1}, {"a": 1}),
        ("rollback", {"a": 1}, {"a": 1}),
        ("verify", True, None),
        ("verify", None, None),
        ("verify", {"status": 200}, {"status": 200}),
        ("observe", Observation(version="v1", in_place=True), {"version": "v1", "in_place": True}),
        ("observe", None, None),
        ("plan", ["a", 1], {"changes": ["a", "1"]}),
        ("plan", None, None),
    ],
)
def test_answers_become_outputs(hook: str, answer: Any, outputs: Any) -> None:
    assert answering(answer).run(hook, None) == outputs  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hook", "answer"),
    [
        ("deploy", 1),
        ("deploy", {"a": {1}}),
        ("deploy", {"a": "x" * 70_000}),
        ("verify", 1),
        ("observe", {"version": "v1"}),
        ("plan", "one"),
        ("plan", 3),
    ],
)
def test_answers_of_the_wrong_type_fail_for_good(hook: str, answer: Any) -> None:
    with pytest.raises(PermanentFailure) as failure:
        answering(answer).run(hook, None)  # type: ignore[arg-type]
    assert failure.value.code == "outputs_invalid"


def test_verify_that_says_no_fails() -> None:
    with pytest.raises(HookFailure, match="not healthy"):
        answering(answer=False).run("verify", None)  # type: ignore[arg-type]


def test_a_hook_that_is_not_there_fails_for_good() -> None:
    only = target(SimpleNamespace())
    assert only.hook_for("rollback") is None
    with pytest.raises(PermanentFailure, match="has no hook deploy"):
        only.run("deploy", None)  # type: ignore[arg-type]


def test_options_are_typed_and_decide_the_effects() -> None:
    one = answering(None)
    assert one.typed_options({"size": 2}).size == 2
    assert one.effects(None) == "idempotent"
    assert one.effects(one.typed_options({"size": 2})) == "once"
    with pytest.raises(PermanentFailure, match="option size: "):
        one.typed_options({"size": "large"})


def test_a_plugin_without_a_model_takes_any_options() -> None:
    bare = target(SimpleNamespace())
    assert bare.typed_options({"a": 1}) == {"a": 1}
    assert bare.effects({}) == "idempotent"


def test_a_plugin_whose_hooks_all_wrap_wraps_every_other(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin, wrapper = Plugin(), Wrapper()
    plugin.answer = {"a": 1}
    found = find(monkeypatch, mine=plugin, audit=wrapper, other=Plugin)
    assert found.wrappers == ["audit"]
    assert found.targets.keys() == {"mine", "other"}
    outputs = found.targets["mine"].run("deploy", None)  # type: ignore[arg-type]
    assert outputs == {"a": 1, "wrapped": True}
    assert wrapper.seen == [{"a": 1}]


class Unmarked:
    def deploi(self, context: Any) -> None:
        """Not marked."""


class Misspelt(Plugin):
    @hookimpl
    def rolback(self, context: Any) -> None:
        """No such hook."""


class WrongArguments:
    @hookimpl
    def deploy(self, contxt: Any) -> None:
        """No such argument."""


class BadEffects(Plugin):
    @hookimpl
    def effects(self) -> Any:
        return "sometimes"


class BadOptions(Plugin):
    @hookimpl
    def options(self) -> Any:
        return {"size": 1}


class BadWrapper:
    @hookimpl(wrapper=True)
    def deploi(self, context: Any) -> Iterator[None]:
        yield


class Listener:
    @hookimpl
    def deploy_event(self, event: Any) -> None:
        """Acts on no target."""


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        (Unmarked, "is deploi meant, and marked with @hookimpl?"),
        (SimpleNamespace, "has no hook deploy"),
        (Misspelt, "unknown hook rolback; nearest is rollback"),
        (WrongArguments, "contxt"),
        (BadEffects, "must be idempotent or once, not 'sometimes'"),
        (BadOptions, "options must return a model class"),
        (BadWrapper, "unknown hook deploi; nearest is deploy"),
        (ImportError("no module x"), "cannot be imported: ImportError: no module x"),
        (SystemExit(1), "cannot be imported: SystemExit: 1"),
    ],
)
def test_a_broken_plugin_says_why_and_disables_only_itself(
    monkeypatch: pytest.MonkeyPatch, plugin: Any, why: str
) -> None:
    found = find(monkeypatch, bad=plugin, good=Plugin)
    assert why in found.broken["bad"]
    assert found.targets.keys() == {"good"}


def test_a_plugin_may_serve_the_whole_server_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find(monkeypatch, listener=Listener).targets["listener"].hooks == {"deploy_event"}


def test_a_name_announced_twice_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [Entry(name="mine", value=value, loaded=Plugin) for value in ("a", "b", "c")]
    monkeypatch.setattr(discovery, "entry_points", lambda group: entries)
    found = discovery.find()
    assert found.targets == {}
    assert found.broken["mine"].startswith("announced twice, as a and ")


def test_every_hook_has_a_specification_and_every_specification_is_listed() -> None:
    marked = {
        name
        for name, function in inspect.getmembers(hooks, inspect.isfunction)
        if hasattr(function, "manent_spec")
    }
    assert marked == hooks.ALL_HOOKS
