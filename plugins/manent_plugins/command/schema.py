"""What `options` of the `command` plugin may hold."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from manent_server.sdk import Options, template

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = "MANENT_"
_SECRET = "secret://"  # noqa: S105 - how a reference begins, no secret


def _text(value: Any) -> Any:
    """Refuse what YAML made of an unquoted word, and what no program can be given."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text; quote it")  # noqa: TRY004 - pydantic's way
    if "\0" in value:
        raise ValueError("holds a NUL byte")
    return value


def _argument(value: str) -> str:
    if value.startswith(_SECRET):
        raise ValueError(
            "every user of the machine can read arguments; give the secret under environment"
        )
    return value


def _list(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError("no shell: write a list, [program, argument]")  # noqa: TRY004 - as above
    return value


def _program(value: list[str]) -> list[str]:
    if not value or not value[0]:
        raise ValueError("names no program")
    return value


def _names(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is not the name of an environment variable")
        if name.startswith(_RESERVED):
            raise ValueError(f"{name}: names that begin with {_RESERVED} are set by manent")
    return value


_Text = Annotated[str, BeforeValidator(_text)]
_Argument = Annotated[_Text, AfterValidator(_argument)]
Arguments = Annotated[list[_Argument], BeforeValidator(_list), AfterValidator(_program), template]
Variables = Annotated[dict[str, _Text], AfterValidator(_names), template]


class CommandOptions(Options):
    """The options of one target."""

    deploy: Arguments
    """Program and arguments that put MANENT_VERSION in place."""
    rollback: Arguments | None = None
    """The same for going back; `deploy` where it is left out."""
    verify: Arguments | None = None
    """Ends with 0 when the target is healthy."""
    observe: Arguments | None = None
    """Prints `{"version": ..., "in_place": true|false|null}`."""
    effects: Literal["idempotent", "once"] = "idempotent"
    """`once` when a second run of `deploy` or `rollback` would do harm."""
    environment: Variables = Field(default_factory=dict)
    """Further variables: text, `secret://store/name` or `config://key`."""
    directory: Annotated[_Text, template] | None = None
    """Where programs written with a relative path lie; the server's own folder by default."""
