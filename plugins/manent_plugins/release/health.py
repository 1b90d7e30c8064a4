"""Asking a release whether it is healthy: one host, no redirect, bounded in time and size."""

import http.client
import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from manent_plugins.release.schema import ReleaseOptions
from manent_server.sdk import Context, HookFailure

_BODY_LIMIT = 64 * 1024
_LOOK_SECONDS = 5.0
_OK = 200
_SHORT = 0.1
_SHOWN = 200


def await_health(context: Context, *, has_died: Callable[[], str | None]) -> None:
    """Return once the health URL is content; raise with what it last said.

    Args:
        context: Of the hook; its `health` may be unset, then only `has_died` counts.
        has_died: Why it can never become healthy any more; None while it can.
    """
    options: ReleaseOptions = context.options
    deadline = time.monotonic() + options.health_timeout.total_seconds()
    while True:
        reason = has_died()
        if reason is not None:
            raise HookFailure(reason, code="service_ended")
        reason = unhealthy(options, context.version)
        if reason is None:
            return
        context.heartbeat(progress={"waiting": reason})
        left = deadline - time.monotonic()
        if left <= 0:
            raise HookFailure(
                f"{options.health} was not healthy within {_shown(options.health_timeout)}: "
                f"{reason}",
                code="unhealthy",
            )
        _pause(context, min(options.health_interval.total_seconds(), max(left, _SHORT)))


def unhealthy(options: ReleaseOptions, version: str) -> str | None:
    """One look: what is wrong; None when all is well or nothing is asked."""
    if options.health is None:
        return None
    try:
        status, body = _get(options.health)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"no answer ({_words(error)})"
    if status != _OK:
        return f"it answered {status}{_hint(status, body)}"
    field = options.health_field
    found = version if field is None else _field(body, field)
    return None if found == version else f"its {field} is {found!r}, not {version!r}"


def _hint(status: int, body: bytes) -> str:
    """What a person would look at next."""
    if 300 <= status < 400:  # noqa: PLR2004 - the class of redirects
        return ", and redirects are not followed"
    words = " ".join(body.decode("utf-8", "replace").split())
    return f": {words[:_SHOWN]}" if words else ""


def _get(url: str) -> tuple[int, bytes]:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(str(parts.hostname), parts.port, timeout=_LOOK_SECONDS)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("GET", path, headers={"Accept": "*/*", "Connection": "close"})
        response = connection.getresponse()
        return response.status, response.read(_BODY_LIMIT)
    finally:
        connection.close()


def _field(body: bytes, name: str) -> Any:
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found.get(name) if isinstance(found, dict) else None


def _pause(context: Context, seconds: float) -> None:
    """Sleep, but not through a cancel."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if context.cancelled:
            raise HookFailure("stopped while waiting for health", code="stopped")
        time.sleep(min(left, _SHORT))


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _shown(duration: timedelta) -> str:
    return f"{duration.total_seconds():g}s"
