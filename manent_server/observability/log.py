"""The log of a process: structlog over the standard library, everything redacted at the end."""

import logging
import re
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import structlog
from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.processors import JSONRenderer, TimeStamper, format_exc_info
from structlog.stdlib import ProcessorFormatter
from structlog.types import EventDict, Processor

from manent_server.observability.flood import FloodFilter
from manent_server.observability.redaction import Redactor

# What fills a log when the database is away.
NOISY = ("dbos", "sqlalchemy.pool")
# The engine's library adds a handler of its own to its logger unless it finds one there.
_OWN_HANDLER = "dbos"
_QUIETER = ("uvicorn", "dbos", "sqlalchemy", "alembic", "asyncio", "httpx2", "httpcore2")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LINE_BREAKS = re.compile(r"[\n\t]")


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
    handler.setFormatter(_formatter(redactor, is_text=is_text, colors=is_text and out.isatty()))
    handler.addFilter(FloodFilter(NOISY))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    engine = logging.getLogger(_OWN_HANDLER)
    engine.handlers = [handler]
    engine.propagate = False
    for name in _QUIETER:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            *_shared(),
            structlog.stdlib.PositionalArgumentsFormatter(),
            ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _shared() -> Sequence[Processor]:
    return (
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        TimeStamper(fmt="iso", utc=True, key="at"),
    )


def _formatter(redactor: Redactor, *, is_text: bool, colors: bool) -> ProcessorFormatter:
    last: Sequence[Processor]
    if is_text:
        last = (
            _one_line,
            ConsoleRenderer(colors=colors, timestamp_key="at", exception_formatter=plain_traceback),
        )
    else:
        last = (JSONRenderer(),)
    return ProcessorFormatter(
        foreign_pre_chain=_shared(),
        processors=[
            ProcessorFormatter.remove_processors_meta,
            format_exc_info,
            _Redacting(redactor),
            *last,
        ],
    )


class _Redacting:
    """The last processor before a record becomes text."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def __call__(self, logger: Any, method: str, event: EventDict) -> EventDict:
        found: EventDict = self._redactor.redact_value(_plain(event))
        return found


def _plain(value: Any) -> Any:
    """The value as JSON knows it, so that nothing is turned into text after redaction."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return repr(value)


def _one_line(logger: Any, method: str, event: EventDict) -> EventDict:
    """Control characters spelt out: nobody who is quoted can write a line of their own."""
    return {
        key: _spelt(value, keep_lines=key == "exception") if isinstance(value, str) else value
        for key, value in event.items()
    }


def _spelt(text: str, *, keep_lines: bool) -> str:
    shown = _CONTROL.sub(_escape, text)
    return shown if keep_lines else _LINE_BREAKS.sub(_escape, shown)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
