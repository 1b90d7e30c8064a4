"""What `options` of the `release` plugin may hold."""

import re
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, model_validator

from manent_server.sdk import Options, template

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SECRET = "secret://"  # noqa: S105 - how a reference begins, no secret
_BRACES = re.compile(r"\{[a-z]*\}")


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
    return value


def _folder(value: str) -> str:
    path = PurePosixPath(value)
    if not path.is_absolute() or ".." in path.parts or path == PurePosixPath("/"):
        raise ValueError("must be an absolute path below /, without ..")
    return value


def _url(value: str) -> str:
    parts = urlsplit(_BRACES.sub("x", value))
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http:// or https:// URL")
    if parts.username is not None:
        raise ValueError("must hold no user and password")
    if not value.isascii() or any(character <= " " for character in value):
        raise ValueError("must be ASCII without blanks; percent-encode the rest")
    _ = parts.port  # raises a ValueError of its own
    return value


def _duration(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str) or _DURATION.fullmatch(value) is None:
        raise ValueError(f"{value!r} is not a duration like 30s or 1m30s")
    parts = _PART.findall(value)
    return timedelta(seconds=sum(float(number) * _SECONDS[unit] for number, unit in parts))


_Text = Annotated[str, BeforeValidator(_text)]
_Argument = Annotated[_Text, AfterValidator(_argument)]
Arguments = Annotated[list[_Argument], BeforeValidator(_list), AfterValidator(_program), template]
Variables = Annotated[dict[str, _Text], AfterValidator(_names), template]
Duration = Annotated[timedelta, BeforeValidator(_duration), Field(gt=timedelta(0))]


class ReleaseOptions(Options):
    """The options of one target."""

    needs_artifact: ClassVar[bool] = True

    root: Annotated[_Text, AfterValidator(_folder), template]
    """The folder of the application on the target; holds `releases/` and `current`."""
    service: Arguments | None = None
    """A program that is started from the release folder and goes on running."""
    restart: Arguments | None = None
    """A program that takes up the new release and ends, run in the release folder."""
    environment: Variables = Field(default_factory=dict)
    """Variables of `service` or `restart`: text or `secret://store/name`."""
    health: Annotated[_Text, AfterValidator(_url), template] | None = None
    """Answers 200 when the release is healthy."""
    health_field: _Text | None = None
    """A field of its JSON answer that must be the version."""
    health_timeout: Duration = timedelta(seconds=30)
    """How long a release may take to become healthy."""
    health_interval: Duration = timedelta(seconds=1)
    """The pause between two looks."""
    stop_timeout: Duration = timedelta(seconds=10)
    """How long a service may take to end after SIGTERM."""
    keep: Annotated[StrictInt, Field(ge=1)] = 5
    """How many releases stay on disk, the current one included."""

    @model_validator(mode="after")
    def _one_way_to_run(self) -> Self:
        if self.service and self.restart:
            raise ValueError("service and restart exclude each other: name the one that is used")
        return self
