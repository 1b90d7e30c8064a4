"""Where an artifact lies: the URL of manent.yml, taken apart and made safe to show."""

import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from manent_server.domain.errors import ManentError

_SHA256 = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.IGNORECASE)


class ArtifactRefused(ManentError):
    """The artifact can never be used as named: wrong digest, too large, not allowed."""

    code = "artifact_refused"


class ArtifactUnavailable(ManentError):
    """The artifact could not be had just now; a later attempt may get it."""

    code = "artifact_unavailable"


@dataclass(frozen=True)
class ArtifactLimits:
    """How large an artifact may be and how long it may take."""

    size: int = 2 * 1024**3
    connect: timedelta = timedelta(seconds=10)
    read: timedelta = timedelta(seconds=30)
    total: timedelta = timedelta(minutes=30)
    redirects: int = 3


@dataclass(frozen=True)
class Location:
    """One readable artifact URL (`file:`, `http:` or `https:`)."""

    parts: SplitResult

    @classmethod
    def parse(cls, url: str) -> Self:
        """Take `url` apart, or say in one sentence why it cannot be an artifact."""
        try:
            parts = urlsplit(url)
            shown = shown_url(url)
            _ = parts.port  # a malformed port only shows when it is asked for
        except ValueError:
            raise ArtifactRefused(
                "the artifact URL cannot be read", next="write file:///folder/name or https://..."
            ) from None
        if parts.scheme == "oci":
            raise ArtifactRefused(
                f"artifact {shown}: registries (oci:) are not supported yet",
                next="publish the artifact as a file or over http(s)",
            )
        if parts.scheme not in {"file", "http", "https"}:
            raise ArtifactRefused(
                f"artifact {shown}: only file:, http: and https: can be read",
                next="write file:///folder/name.tar.gz for a file on the worker's machine",
            )
        location = cls(parts)
        location._demand_place()
        return location

    @property
    def scheme(self) -> str:
        """`file`, `http` or `https`."""
        return self.parts.scheme

    @property
    def path(self) -> Path:
        """The file a `file:` URL names."""
        return Path(unquote(self.parts.path))

    @property
    def shown(self) -> str:
        """The URL without user, password, query and fragment."""
        return shown_url(urlunsplit(self.parts))

    def _demand_place(self) -> None:
        if self.scheme == "file":
            if self.parts.netloc not in {"", "localhost"} or not self.parts.path.startswith("/"):
                raise ArtifactRefused(
                    f"artifact {self.shown}: a file needs an absolute path",
                    next="write file:///folder/name.tar.gz, with three slashes",
                )
            if "\0" in unquote(self.parts.path):
                raise ArtifactRefused(f"artifact {self.shown}: the path holds a NUL byte")
        elif not self.parts.hostname:
            raise ArtifactRefused(f"artifact {self.shown}: the URL names no host")
        elif not self.parts.netloc.isascii():
            raise ArtifactRefused(
                f"artifact {self.shown}: the host name is not ASCII",
                next="write it in its xn-- form",
            )


def shown_url(url: str) -> str:
    """`url` as it may stand in a log: user, password, query and fragment are cut."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = "..." if parts.query else ""
    return urlunsplit((parts.scheme, host, parts.path, query, ""))


def digest_of(text: str) -> str:
    """The 64 hexadecimal digits of a pinned digest (`sha256:` before them is allowed)."""
    match = _SHA256.fullmatch(text.strip())
    if match is None:
        raise ArtifactRefused(
            f"sha256 {text[:80]!r} is no SHA-256 digest",
            next="write the 64 hexadecimal digits that sha256sum prints",
        )
    return match[1].lower()
