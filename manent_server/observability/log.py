"""The log of a process: the standard library's, in one shape, everything redacted at the end.

Fields of a record are given as `extra=fields(name=value)`, those of all records of a piece of work
by `with bound(name=value)`.
"""

import json
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, TextIO

from manent_server.observability.flood import BriefFilter, FloodFilter
from manent_server.observability.redaction import Redactor

# What fills a log when the database is away.
NOISY = ("dbos", "sqlalchemy.pool")
# The engine's library adds a handler of its own to its logger unless it finds one there.
_OWN_HANDLER = "dbos"
_QUIETER = ("uvicorn", "dbos", "sqlalchemy", "alembic", "asyncio", "httpx2", "httpcore2")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LINE_BREAKS = re.compile(r"[\n\t]")
_FIELDS: Final = "manent_fields"
_bound: ContextVar[Mapping[str, Any]] = ContextVar("manent_bound", default=MappingProxyType({}))
_COLORS: Final = {"debug": 2, "info": 32, "warning": 33, "error": 31, "critical": 31}


def configure(
    level: str,
    format: str,  # noqa: A002 - the name of the key in manent.yml
    redactor: Redactor,
    *,
    stream: TextIO | None = None,
) -> None:
    """Send everything this process logs to `stream`.

    Args:
        level: debug, info, warning or error.
        format: json, text, or auto: text on a terminal, JSON elsewhere.
        redactor: Applied to every field of every record, exceptions included.
        stream: Standard error unless given.
    """
    out = stream or sys.stderr
    is_text = format == "text" or (format == "auto" and out.isatty())
    handler = logging.StreamHandler(out)
    show = _Text(has_colors=out.isatty()) if is_text else _json
    handler.setFormatter(_Formatter(redactor, show))
    handler.addFilter(BriefFilter(NOISY))
    handler.addFilter(FloodFilter(NOISY))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    engine = logging.getLogger(_OWN_HANDLER)
    engine.handlers = [handler]
    engine.propagate = False
    for name in _QUIETER:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))


def fields(**named: Any) -> Mapping[str, Any]:
    """Fields of one record besides its sentence: `_log.info("...", extra=fields(path=path))`."""
    return {_FIELDS: named}


@contextmanager
def bound(**named: Any) -> Iterator[None]:
    """Within it every record of this thread has these fields besides its own.

    What starts another thread hands them on by `contextvars.copy_context().run`.
    """
    token = _bound.set({**_bound.get(), **named})
    try:
        yield
    finally:
        _bound.reset(token)


class _Formatter(logging.Formatter):
    """One record as one line: gathered, made plain, redacted, then shown."""

    def __init__(self, redactor: Redactor, show: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self._redactor = redactor
        self._show = show

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        event = {
            **_bound.get(),
            **getattr(record, _FIELDS, {}),
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "at": _instant(record.created),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            event["stack"] = self.formatStack(record.stack_info)
        return self._show(self._redactor.redact_value(_plain(event)))


def _instant(seconds: float) -> str:
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")


def _plain(value: Any) -> Any:
    """The value as JSON knows it, so that nothing is turned into text after redaction."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return repr(value)


def _json(event: dict[str, Any]) -> str:
    return json.dumps(event)


class _Text:
    """For a person's eyes; whoever is quoted cannot write a line of their own."""

    def __init__(self, *, has_colors: bool) -> None:
        self._has_colors = has_colors

    def __call__(self, event: dict[str, Any]) -> str:
        """Time, level, sentence, logger and fields; what failed on lines below."""
        blocks = [event.pop(name) for name in ("stack", "exception") if name in event]
        at, level, said, logger = (
            _spelt(event.pop(name)) for name in ("at", "level", "event", "logger")
        )
        words = [f"{at} [{self._colored(level)}] {said}", f"[{logger}]"]
        words += [f"{_spelt(name)}={_shown(value)}" for name, value in sorted(event.items())]
        return "\n".join([" ".join(words), *(_spelt_lines(block) for block in blocks)])

    def _colored(self, level: str) -> str:
        shown = f"{level:<8}"
        return f"\x1b[{_COLORS.get(level, 0)}m{shown}\x1b[0m" if self._has_colors else shown


def _shown(value: Any) -> str:
    return _spelt(value) if isinstance(value, str) else _spelt(repr(value))


def _spelt(text: str) -> str:
    return _LINE_BREAKS.sub(_escape, _spelt_lines(text))


def _spelt_lines(text: str) -> str:
    return _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
