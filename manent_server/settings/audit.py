"""`audit` of manent.yml: where the record goes besides the database."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from manent_server.settings import checks, values
from manent_server.settings.kinds import Choice, File, Or, Size, Text
from manent_server.settings.node import Node, Scalar, Table
from manent_server.settings.reading import Invalid, Reading
from manent_server.settings.structures import REQUIRED, Key, ListOf, Section, TableOf

STDOUT: Final = "-"
FILE: Final = "file"
"""The name under which the file's position is kept."""
SCHEME: Final = "tls://"


@dataclass(frozen=True)
class FileOrStdout:
    """A path, or `-`."""

    words: str = "path or `-`"

    def read(self, node: Node, reading: Reading) -> Path | str | Invalid:
        """The path, absolute, or `-`."""
        if isinstance(node, Scalar) and reading.text(node) == STDOUT:
            return STDOUT
        return File().read(node, reading)


class Sinks(TableOf):
    """Sinks by name; one name is taken."""

    def read(self, node: Node, reading: Reading) -> Mapping[str, Any] | Invalid:
        """The sinks."""
        if isinstance(node, Table) and FILE in node.entries:
            entry = node.entries[FILE]
            message = "audit.file has this name; choose another"
            reading.findings.add(entry.place, entry.node.path, message)
        return super().read(node, reading)


def address(text: str) -> str:
    """Where a sink listens.

    Raises:
        ValueError: It is no tls://HOST:PORT.
    """
    wrong = ValueError("must be an address such as tls://siem.example:6514")
    if not text.startswith(SCHEME):
        raise wrong
    try:
        checks.address(text.removeprefix(SCHEME))
    except ValueError:
        raise wrong from None
    return text


def _check_client(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    missing = [name for name in ("certificate", "key") if found[name] is None]
    if len(missing) == 1:
        return [(missing[0], f"the key {missing[0]} is missing: certificate and key go together")]
    return []


_SINK = Section(
    (
        Key(
            "format",
            Choice(("ocsf", "ecs", "cef", "rfc5424")),
            REQUIRED,
            "cef and rfc5424: syslog frames; ocsf and ecs: a line of JSON each",
        ),
        Key(
            "address",
            Text("tls://HOST:PORT", address),
            REQUIRED,
            "where the receiver listens; its certificate is checked",
        ),
        Key("ca", Or(File()), "null", "PEM file of whom it is trusted by; null = the system's"),
        Key("certificate", Or(File()), "null", "PEM file that manent shows to it"),
        Key("key", Or(File()), "null", "PEM file with the private key of that"),
    ),
    values.AuditSink,
    _check_client,
)

AUDIT: Final = Section(
    (
        Key("file", Or(FileOrStdout()), "audit.jsonl", '"-" = stdout, null = none'),
        Key("file_limit", Size(), "100MiB", "at this size a file is put aside; none is deleted"),
        Key(
            "key",
            Or(File()),
            "null",
            "PEM file with the Ed25519 key that signs the chain; null = none",
        ),
        Key("trusted_keys", ListOf(File()), "[]", "PEM files of keys that signed it before"),
        Key("sinks", Sinks(_SINK, "audit sink"), "{}", "receivers of the record, by name"),
    ),
    values.Audit,
)
