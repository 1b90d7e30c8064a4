"""The reference page of the hooks, made of the SDK's own docstrings."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

from manent_server.sdk import context, errors, hooks
from manent_server.sdk.service import start_service

_HEAD = """# Hooks

What a plugin can do for manent, and what it is given. A plugin is a Python module or object
announced under the entry-point group `manent.plugins`; the name of the entry point is the name in
`manent.yml`. Its hooks are functions marked with `@hookimpl` that take any of the arguments below.

```python
from manent_server.sdk import Context, hookimpl


@hookimpl
def deploy(context: Context):
    context.log.info(f"{context.target} gets {context.version}")
```

Only `deploy` is required. A hook whose name is not on this page makes the plugin unusable, and the
message names the nearest one that exists. A plugin whose hooks are all wrappers
(`@hookimpl(wrapper=True)`) acts on no target: it wraps the hooks of every other plugin.

Each call of a hook on a target runs in a process of its own, ended with everything it started when
its time is over ([the rules](plugin-protocol.md#processes)). Its environment holds `PATH`, `HOME`
and `LANG` of the worker and `MANENT_ATTEMPT_ID`, nothing else; its current directory is
`context.workdir`, its stdout and stderr are the log.
"""

_NOT_YET = "For the whole server"
_GROUPS = {
    "On a target": ("deploy", "rollback", "verify", "observe", "plan"),
    "About the plugin": ("options", "effects"),
    _NOT_YET: ("deploy_event", "resolve_secret", "environment_config"),
}


def render() -> str:
    """The page, as Markdown."""
    return "\n".join([_HEAD, *_hooks(), *_context(), *_failures(), *_service()]) + "\n"


def _hooks() -> Iterator[str]:
    for title, names in _GROUPS.items():
        yield f"## {title}\n"
        if title == _NOT_YET:
            yield "Specified, so that plugins can be written; not called in this release.\n"
        for name in names:
            hook = getattr(hooks, name)
            yield f"### `{name}{_signature(hook)}`\n"
            yield f"{_text(hook)}\n"


def _context() -> Iterator[str]:
    yield "## The context\n"
    yield f"{_summary(context.Context)}\n"
    yield from _table(context.Context)
    for method in (context.Context.heartbeat, context.Context.still_owner):
        yield f"### `context.{method.__name__}{_signature(method)}`\n"
        yield f"{_text(method)}\n"
    yield "### `context.cancelled`\n"
    yield f"{_text(context.Context.cancelled)}\n"
    for kind in (context.Artifact, context.Previous, context.Observation):
        yield f"### `{kind.__name__}`\n"
        yield f"{_summary(kind)}\n"
        yield from _table(kind)


def _failures() -> Iterator[str]:
    yield "## Failing\n"
    yield "A hook fails by raising. Whatever it raises ends its attempt as `failed`:\n"
    yield "| Raised | Means |"
    yield "|---|---|"
    for kind in (errors.PermanentFailure, errors.RetryLater, errors.HookFailure):
        yield f"| `{kind.__name__}(message)` | {_summary(kind)} |"
    yield "| any other exception | tried again within `retry`; its trace is in the log |"
    yield ""


def _service() -> Iterator[str]:
    yield "## Services\n"
    yield f"### `start_service{_signature(start_service)}`\n"
    yield f"{_text(start_service)}\n"


def _signature(function: Any) -> str:
    """The names a caller writes, with the defaults, without types."""
    shown = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        given = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        shown.append(name + given)
    return f"({', '.join(shown)})"


def _summary(thing: Any) -> str:
    """The first paragraph of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")


def _text(thing: Any) -> str:
    """A whole docstring, its sections as lists."""
    text = inspect.getdoc(thing) or ""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        head, _, body = paragraph.partition("\n")
        if head in ("Args:", "Raises:"):
            paragraphs.append("\n".join(f"- `{name}`: {said}" for name, said in _entries(body)))
        else:
            paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


def _table(kind: type) -> Iterator[str]:
    body = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    yield "| Attribute | |"
    yield "|---|---|"
    for name, said in _entries(body):
        yield f"| `{name}` | {said} |"
    yield ""


def _entries(body: str) -> Iterator[tuple[str, str]]:
    """The entries of a docstring's section: a name, a colon, text over one or more lines."""
    for entry in re.split(r"\n    (?=\S)", "\n" + body):
        name, colon, said = entry.partition(":")
        if colon:
            yield name.strip(), " ".join(said.split())
