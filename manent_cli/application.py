"""The tree of commands. Only the module of the command that runs is imported."""

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from manent_cli import __version__

# In the order of `manent --help`: what one does most comes first.
MODULES: Final[Mapping[str, str]] = {
    "deploy": "deploy",
    "redeploy": "deploy",
    "promote": "deploy",
    "plan": "plan",
    "rollback": "deploy",
    "list": "listing",
    "show": "listing",
    "history": "listing",
    "watch": "wait",
    "wait": "wait",
    "logs": "logs",
    "explain": "explain",
    "cancel": "cancel",
    "skip-wait": "cancel",
    "abandon": "abandon",
    "retry": "rerun",
    "rerun": "rerun",
    "resolve": "resolve",
    "approvals": "approval",
    "approve": "approval",
    "reject": "approval",
    "regate": "approval",
    "status": "environment",
    "inventory": "environment",
    "marks": "marks",
    "lock": "marks",
    "unlock": "marks",
    "freeze": "marks",
    "unfreeze": "marks",
    "hold": "marks",
    "unhold": "marks",
    "veto": "marks",
    "unveto": "marks",
    "stop": "marks",
    "resume-all": "marks",
    "schedule": "schedule",
    "audit": "audit",
    "sinks": "notice",
    "notices": "notice",
    "resend": "notice",
    "login": "login",
    "auth": "login",
    "link": "link",
    "context": "context",
    "version": "version",
}


class Commands(TyperGroup):
    """The root: knows every name, imports a command when it is asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # The names alone are enough for "did you mean".
        names: dict[str, Any] = dict.fromkeys(MODULES)
        self.commands = names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, None when there is none."""
        if cmd_name not in MODULES:
            return None
        module = import_module(f"manent_cli.commands.{MODULES[cmd_name]}")
        return _command(module.app, cmd_name)


def _command(app: typer.Typer, name: str) -> Any:
    # Only the one that runs is built: typer takes a millisecond for each.
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.registered_commands = [one for one in app.registered_commands if one.name == name]
    alone.registered_groups = app.registered_groups
    return get_group(alone).commands[name]


def build() -> Any:
    """The root command."""
    app = typer.Typer(cls=Commands, rich_markup_mode=None)

    @app.callback()
    def root(
        version: Annotated[
            bool,
            typer.Option("--version", is_eager=True, callback=_say_version, help="The version."),
        ] = False,
    ) -> None:
        """Deploy software, watch it, and see why a deploy is not running yet."""

    return get_command(app)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"manent {__version__}")
        raise typer.Exit
