"""The reference page of `manent-server`, made from its commands."""

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from manent_server import cli

_HEAD = """# manent-server

The server's own command line; `manent-server COMMAND --help` says the same. `manent.yml` is found
by `--config`, else by the variable `MANENT_CONFIG`, else in the current folder.

| Exit code | Means |
|---|---|
| 0 | done; `serve`: ended in order, after what ran was finished or handed back |
| 1 | an error |
| 2 | wrong usage or configuration |
| 75 | it cannot run now, a later start may: start it again |
| 128 + n | `serve` was told twice to stop, by signal n |
"""


def render() -> str:
    """The page."""
    root = typer.main.get_command(cli.app)
    return "\n".join([_HEAD, *_commands(root, "manent-server")])


def _commands(group: Any, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            if command.invoke_without_command:
                yield _command(command, f"{path} {name}")
            yield from _commands(command, f"{path} {name}")
        else:
            yield _command(command, f"{path} {name}")


def _command(command: Any, path: str) -> str:
    shown = [one for one in command.params if one.name != "help"]
    usage = " ".join([path, *(_metavar(one) for one in shown if not _is_option(one))])
    rows = "".join(f"| `{_spelling(one)}` | {_said(one)} |\n" for one in shown)
    table = f"\n| | |\n|---|---|\n{rows}" if rows else ""
    return f"## {path}\n\n{inspect.cleandoc(command.help)}\n\n```text\n{usage}\n```\n{table}"


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _spelling(parameter: Any) -> str:
    if not _is_option(parameter):
        return _metavar(parameter)
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {_metavar(parameter)}"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _said(parameter: Any) -> str:
    return str(getattr(parameter, "help", None) or "").replace("|", "\\|")
