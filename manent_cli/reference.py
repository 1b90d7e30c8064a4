"""The reference page of the command line, made from the commands themselves.

`python -m manent_cli.reference` prints it.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from typer.core import TyperGroup

from manent_cli import exit_codes
from manent_cli.application import build
from manent_cli.environment import VARIABLES
from manent_cli.options import COMMON
from manent_cli.output import FORMATS

_HEAD = """\
# manent

The command line of manent. Generated from the code; `manent COMMAND --help` says the same.

Standard output is data, standard error is talk. `deploy`, `redeploy`, `promote`, `rollback` and
`wait` print the id of the deploy alone, unless `--output` asks for more; steps, log and reasons
go to standard error. With `json`, `jsonl` or `yaml` a failure is one JSON object, the last line
of standard error.

A deploy that is waited for goes on whatever happens to the client: a cut connection or a restarting
server is waited out, Ctrl-C and `--timeout` only end the waiting. A command makes one idempotency
key and repeats it when it has to ask again, so it never asks for two deploys.

A version, like every argument, is text: `1.10` is not `1.1`. What begins with a dash in its place
is wrong usage, never an option that makes the command succeed without a deploy.
"""
_CONTEXTS = """\
## Which server

A flag wins over a variable, a variable over the contexts file. Contexts stand in
`manent/contexts.json` below `$XDG_CONFIG_HOME` or `~/.config`, readable by their owner alone:

```json
{"current": "local", "contexts": {"local": {"url": "http://127.0.0.1:8420", "token": "..."}}}
```

The token of a context is sent to the URL of that context and to no other. A variable that begins
with `MANENT_` and is not known is named on standard error. `HTTPS_PROXY`, `https_proxy`,
`http_proxy`, `ALL_PROXY` and `NO_PROXY` are read; `SSL_CERT_FILE` names authorities of one's own;
`NO_COLOR` and `TERM=dumb` are obeyed.
"""


def render() -> str:
    """The page as Markdown."""
    root = build()
    parts = [_HEAD, *_commands(root), _common(root), _CONTEXTS]
    parts.append(_table(("Variable", "Is"), ((f"`{one}`", VARIABLES[one]) for one in VARIABLES)))
    forms = ((f"`{one}`", FORMATS[one]) for one in FORMATS)
    parts += ["## Forms\n", _table(("`--output`", "Prints"), forms)]
    codes = ((str(code), meaning) for code, meaning in exit_codes.MEANING.items())
    parts += ["## Exit codes\n", _table(("Code", "Means"), codes)]
    return "\n".join(parts)


def _commands(group: Any, prefix: str = "manent") -> Iterator[str]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if isinstance(command, TyperGroup):
            yield from _commands(command, f"{prefix} {name}")
        else:
            yield _command(command, f"{prefix} {name}")


def _command(command: Any, path: str) -> str:
    own = [one for one in command.params if one.name not in COMMON]
    arguments = [one for one in own if one.param_type_name == "argument"]
    options = [one for one in own if one.param_type_name == "option"]
    usage = " ".join([path, *(one.metavar for one in arguments), "[OPTIONS]"])
    parts = [f"## {path}\n", f"{command.help}\n", f"```text\n{usage}\n```\n"]
    if arguments:
        parts.append(
            _table(("Argument", "Is"), ((f"`{one.metavar}`", one.help) for one in arguments))
        )
    if options:
        parts.append(_options(options))
    return "\n".join(parts)


def _common(root: Any) -> str:
    command = root.get_command(None, "list")
    common = [one for one in command.params if one.name in COMMON]
    return "## Options of every command\n\n" + _options(common)


def _options(options: Sequence[Any]) -> str:
    rows = (
        (_spelling(one), f"Required. {one.help}" if one.required else one.help) for one in options
    )
    return _table(("Option", "Is"), rows)


def _spelling(option: Any) -> str:
    names = ", ".join(option.opts)
    return f"`{names}`" if option.is_flag else f"`{names} {option.metavar}`"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


if __name__ == "__main__":
    sys.stdout.write(render())
