"""Checks of single texts - addresses, URLs, digests - and of times that depend on each other."""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from manent_server.domain import duration, liveness
from manent_server.settings import fill

_PORT = re.compile(r"[0-9]{1,5}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})|\[[0-9a-fA-F:.]+\]")
_URL = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")
_ARTIFACT = re.compile(r"file:///.+|https?://\S+")
_EXECUTOR = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_HIGHEST_PORT = 65535
_HEARTBEATS = 3


def address(text: str) -> str:
    """A listener's `HOST:PORT`.

    Raises:
        ValueError: Anything else.
    """
    host, _, port = text.rpartition(":")
    if _HOST.fullmatch(host) and _PORT.fullmatch(port) and int(port) <= _HIGHEST_PORT:
        return text
    raise ValueError("must be HOST:PORT, such as 127.0.0.1:8420 or [::1]:8420")


def host_and_port(text: str) -> tuple[str, int]:
    """The two halves of an address that `address` let through."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def public_url(text: str) -> str:
    """An http(s) URL, without the slash at its end."""
    if not _URL.fullmatch(text):
        raise ValueError("must be a URL such as https://manent.example, without a password")
    return text.rstrip("/")


def network(text: str) -> str:
    """An IP address or network in its usual spelling."""
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        message = "must be an address or a network such as 10.0.0.0/8, no bit of it beyond its mask"
        raise ValueError(message) from None


def artifact_url(text: str) -> str:
    """A URL an artifact can be fetched from, its placeholders known."""
    if text.startswith("oci:"):
        raise ValueError("oci artifacts are not in this release; use file, http or https")
    if not _ARTIFACT.fullmatch(text):
        raise ValueError("must be a URL that begins with file:///, http:// or https://")
    if "@" in text.split("://", 1)[1].split("/", 1)[0]:
        # It would be stored with every deploy and shown to everybody who may read one.
        raise ValueError("must not hold a user or password: every deploy stores it")
    wrong = fill.check(text)
    if wrong:
        raise ValueError(wrong)
    return text


def executor_id(text: str) -> str:
    """The name of a worker's row."""
    if not _EXECUTOR.fullmatch(text):
        raise ValueError("must be letters, digits, '.', '_' and '-', at most 128")
    return text


def sha256(text: str) -> str:
    """A digest in hexadecimal."""
    if not _SHA256.fullmatch(text):
        raise ValueError("must be 64 lower-case hexadecimal digits")
    return text


def some_text(text: str) -> str:
    """Any text but an empty one."""
    if not text:
        raise ValueError("must not be empty")
    return text


def recovery(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is wrong between the times of recovery."""
    wrong = []
    names = ("heartbeat_interval", "stale_after", "auto_recover_after")
    beat, stale, automatic = (found[name] for name in names)
    if stale < _HEARTBEATS * beat:
        wrong.append(
            (
                "stale_after",
                f"recovery.stale_after ({duration.show(stale)}) must be at least "
                f"{_HEARTBEATS} x recovery.heartbeat_interval ({duration.show(beat)})",
            )
        )
    if automatic:
        wrong += [("auto_recover_after", text) for text in _automatic(beat, stale, automatic)]
    return wrong


def _automatic(beat: timedelta, stale: timedelta, automatic: timedelta) -> Iterator[str]:
    given = f"recovery.auto_recover_after ({duration.show(automatic)})"
    if automatic < stale:
        yield f"{given} must be at least recovery.stale_after ({duration.show(stale)})"
    lease = liveness.lease_length(automatic)
    if lease < _HEARTBEATS * beat:
        yield (
            f"{given} leaves a lease of {duration.show(max(lease, timedelta(0)))}, which must be "
            f"at least {_HEARTBEATS} x recovery.heartbeat_interval ({duration.show(beat)})"
        )
