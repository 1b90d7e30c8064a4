from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from manent_server.sdk import (
    Context,
    HookFailure,
    Log,
    Options,
    PermanentFailure,
    RetryLater,
    Template,
    hooks,
    reference,
    template,
)
from manent_server.sdk.options import template_paths


class Channel:
    """Remembers what a context says, and answers as it is told."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.owner = True
        self.cancelled = False

    def log(self, level: str, text: str) -> None:
        self.said.append((level, text))

    def heartbeat(self, *, checkpoint: Any, progress: Any) -> None:
        self.said.append((checkpoint, progress))

    def is_owner(self) -> bool:
        return self.owner

    def is_cancelled(self) -> bool:
        return self.cancelled


@pytest.fixture
def channel() -> Channel:
    return Channel()


@pytest.fixture
def context(channel: Channel) -> Context:
    return Context(
        deploy="d1", kind="deploy", application="shop", environment="staging", target="host",
        options={}, version="v2", from_version="v1", artifact=None, configuration={}, secrets={},
        previous=None, outputs={}, idempotency_key="d1/deploy/1", attempt=1, epoch=7,
        checkpoint=None, completed=(), workdir=Path("/"), folder=Path("/"),
        log=Log(channel), channel=channel,
    )  # fmt: skip


def test_a_context_says_things_to_its_guard(context: Context, channel: Channel) -> None:
    context.log.info("a")
    context.log.warning("b")
    context.log.error("c")
    context.heartbeat()
    context.heartbeat({"n": 1}, progress=0.5)
    assert channel.said == [
        ("info", "a"),
        ("warning", "b"),
        ("error", "c"),
        (None, None),
        ({"n": 1}, 0.5),
    ]


def test_a_context_answers_from_the_lease_and_the_cancel(
    context: Context, channel: Channel
) -> None:
    assert context.still_owner()
    assert not context.cancelled
    channel.owner, channel.cancelled = False, True
    assert not context.still_owner()
    assert context.cancelled


def test_a_context_cannot_be_changed(context: Context) -> None:
    with pytest.raises(AttributeError):
        context.version = "v3"  # type: ignore[misc]


class Health(Options):
    url: Template
    tries: int = 3


class Mine(Options):
    root: Template
    keep: int = 3
    restart: Annotated[list[str], template] = Field(default=[])
    variables: dict[str, Template] = Field(default={})
    note: Template | None = None
    health: Health | None = None
    inner: Health = Health(url="")


def test_options_refuse_unknown_keys_and_changes() -> None:
    with pytest.raises(ValidationError):
        Mine(root="/", kep=3)  # type: ignore[call-arg]
    mine = Mine(root="/")
    with pytest.raises(ValidationError):
        mine.root = "/srv"


def test_templates_are_found_wherever_they_are_marked() -> None:
    assert template_paths(Mine) == {
        "root",
        "restart",
        "variables",
        "note",
        "inner.url",
        "health.url",
    }
    assert repr(template) == "template"


def test_failures_have_codes() -> None:
    assert (HookFailure("a").code, HookFailure("a", code="x").code) == ("hook_failed", "x")
    assert PermanentFailure("never").code == "permanent_failure"
    later = RetryLater("not yet", after=timedelta(seconds=3))
    assert (later.code, later.after, later.message) == (
        "retry_later",
        timedelta(seconds=3),
        "not yet",
    )


def test_the_reference_shows_every_hook_and_every_field() -> None:
    page = reference.render()
    for name in hooks.ALL_HOOKS:
        assert f"### `{name}(" in page
    for name in Context.__annotations__:
        assert name == "channel" or f"| `{name}` | " in page
    assert "### `start_service(argv, *, workdir, environment, log)`" in page
    assert "- `OSError`: It could not be started; nothing is left behind." in page
