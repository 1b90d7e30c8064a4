"""The record in the words of others: OCSF, ECS, CEF and RFC 5424. Each makes one frame a record."""

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from manent_server.domain import audit
from manent_server.domain.audit import Entry

_LONGEST_MESSAGE: Final = 64 * 1024
# Lengths the dictionary of CEF gives; longer values are cut by receivers, somewhere.
_CEF_LIMITS: Final = {"act": 63, "suser": 1023, "msg": 1023}
_CEF_CUSTOM: Final = 4000
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_UNPRINTED: Final = re.compile(r"[\x00-\x1f\x7f]")
_PRINTABLE: Final = re.compile(r"[^!-~]")
_OCSF_VERSION: Final = "1.5.0"
_ECS_VERSION: Final = "8.17.0"
# The number of private enterprises that is set apart for those that have none.
_STRUCTURED: Final = "manent@32473"
_FACILITY: Final = 13  # log audit


@dataclass(frozen=True)
class Origin:
    """Who sends: the name of the machine and the release."""

    host: str
    version: str


@dataclass(frozen=True)
class Sort:
    """What an action is to others.

    Attributes:
        ocsf: Class, and activity in it.
        ecs: Category, and type in it.
    """

    ocsf: tuple[int, int]
    ecs: tuple[str, str]


# The first whose pattern an action matches. OCSF: 3002 authentication (1 logon, 2 logoff), 6002
# application lifecycle, 6003 API activity (1 create, 3 update, 4 delete, 99 other).
SORTS: Final[tuple[tuple[str, Sort], ...]] = (
    (r"access\.signin_failed", Sort((3002, 1), ("authentication", "start"))),
    (r"access\..*|chat\.refused", Sort((6003, 99), ("api", "denied"))),
    (r"chat\.linked", Sort((6003, 1), ("iam", "creation"))),
    (r"chat\.unlinked", Sort((6003, 4), ("iam", "deletion"))),
    (r"deploy\.started", Sort((6002, 3), ("package", "start"))),
    (r"deploy\.ended", Sort((6002, 8), ("package", "change"))),
    (r"deploy\..*", Sort((6002, 99), ("package", "info"))),
    (r"session\.created", Sort((3002, 1), ("authentication", "start"))),
    (r"session\..*", Sort((3002, 2), ("authentication", "end"))),
    (r"token\.created", Sort((6003, 1), ("iam", "creation"))),
    (r"token\..*", Sort((6003, 4), ("iam", "deletion"))),
    (r".*\.(created|set|requested)", Sort((6003, 1), ("configuration", "creation"))),
    (r".*\.(deleted|lifted|forgotten)", Sort((6003, 4), ("configuration", "deletion"))),
    (r".*", Sort((6003, 3), ("configuration", "change"))),
)
_REFUSALS: Final = frozenset({"chat.refused", "schedule.refused"})
_GOOD_ENDS: Final = frozenset({"deployed", "partial", None})


@dataclass(frozen=True)
class Told:
    """A record with what every format asks of it."""

    entry: Entry
    record: Mapping[str, Any]
    origin: Origin

    @property
    def sort(self) -> Sort:
        """What its action is to others."""
        action = self.record["action"]
        return next(sort for pattern, sort in SORTS if re.fullmatch(pattern, action))

    @property
    def is_failure(self) -> bool:
        """Whether somebody was refused, or a deploy failed."""
        action, detail = self.record["action"], self.record["detail"] or {}
        if action.startswith("access.") or action in _REFUSALS:
            return True
        return action == "deploy.ended" and detail.get("outcome") not in _GOOD_ENDS

    @property
    def milliseconds(self) -> int:
        """Its instant, since 1970."""
        return int(datetime.fromisoformat(self.record["at"]).timestamp() * 1000)

    @property
    def ip(self) -> str | None:
        """Where it came from, if that is an address."""
        try:
            return str(ipaddress.ip_address(self.record["address"] or ""))
        except ValueError:
            return None


def ocsf(told: Told) -> bytes:
    """A line of OCSF."""
    record, (kind, activity) = told.record, told.sort.ocsf
    made = {
        "metadata": {
            "version": _OCSF_VERSION,
            "uid": record["id"],
            "sequence": told.entry.number,
            "log_name": "audit",
            "product": {"name": "manent", "vendor_name": "manent", "version": told.origin.version},
        },
        "category_uid": kind // 1000,
        "class_uid": kind,
        "activity_id": activity,
        "activity_name": record["action"],
        "type_uid": kind * 100 + activity,
        "severity_id": 3 if told.is_failure else 1,
        "status_id": 2 if told.is_failure else 1,
        "time": told.milliseconds,
        "actor": {"user": {"name": record["actor"]}},
        "user": {"name": record["actor"]} if kind == _SIGNIN else None,
        "api": {"operation": record["action"]} if kind == _API else None,
        "app": {"name": record["application"] or "manent"} if kind == _LIFECYCLE else None,
        "src_endpoint": {"ip": told.ip} if told.ip else {"name": record["channel"] or "manent"},
        "raw_data": told.entry.text,
        "unmapped": {
            "hash": told.entry.hash,
            **{name: record[name] for name in ("deploy", "application", "environment", "channel")},
        },
    }
    return _line(made)


_SIGNIN: Final = 3002
_LIFECYCLE: Final = 6002
_API: Final = 6003


def ecs(told: Told) -> bytes:
    """A line of the Elastic Common Schema."""
    record, (category, kind) = told.record, told.sort.ecs
    made = {
        "@timestamp": record["at"],
        "ecs": {"version": _ECS_VERSION},
        "event": {
            "kind": "event",
            "category": [category],
            "type": [kind],
            "action": record["action"],
            "outcome": "failure" if told.is_failure else "success",
            "id": record["id"],
            "sequence": told.entry.number,
            "dataset": "manent.audit",
            "module": "manent",
            "original": told.entry.text,
        },
        "user": {"name": record["actor"]},
        "source": {"ip": told.ip} if told.ip else None,
        "service": {
            "name": "manent",
            "version": told.origin.version,
            "environment": record["environment"],
        },
        "host": {"name": told.origin.host},
        "labels": {
            "hash": told.entry.hash,
            **{name: record[name] for name in ("deploy", "application", "channel")},
        },
    }
    return _line(made)


def _line(made: Mapping[str, Any]) -> bytes:
    return json.dumps(_without_nothing(made), separators=(",", ":")).encode() + b"\n"


def _without_nothing(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_nothing(inner) for k, inner in value.items() if inner is not None}
    return value


def cef(told: Told) -> bytes:
    """A syslog frame that holds a line of CEF."""
    record = told.record
    severity = 6 if told.is_failure else 3
    header = ("manent", "manent", told.origin.version, record["action"], record["action"], severity)
    fields = {
        "rt": told.milliseconds,
        "externalId": record["id"],
        "act": record["action"],
        "suser": record["actor"],
        "src": told.ip,
        "outcome": "failure" if told.is_failure else "success",
        "msg": (record["detail"] or {}).get("reason") or (record["detail"] or {}).get("detail"),
        "cn1": told.entry.number,
        "cs1": told.entry.hash,
        "cs2": record["application"],
        "cs3": record["environment"],
        "cs4": record["deploy"],
        "cs5": record["channel"],
        "cs6": told.entry.text,
    }
    labels = {
        "cn1": "number",
        "cs1": "hash",
        "cs2": "application",
        "cs3": "environment",
        "cs4": "deploy",
        "cs5": "channel",
        "cs6": "record",
    }
    said = {}
    for name, value in fields.items():
        if value is not None:
            said[name] = str(value)[: _CEF_LIMITS.get(name, _CEF_CUSTOM)]
            if name in labels:
                said[f"{name}Label"] = labels[name]
    start = "|".join(["CEF:0", *(_cef_header(str(value)) for value in header)])
    extension = " ".join(f"{name}={_cef_value(value)}" for name, value in said.items())
    return _frame(told, "-", f"{start}|{extension}")


def _cef_header(text: str) -> str:
    flat = _CONTROL.sub(" ", text)
    return flat.replace("\\", "\\\\").replace("|", "\\|")


def _cef_value(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("=", "\\=")
    escaped = escaped.replace("\r", "\\r").replace("\n", "\\n")
    return _UNPRINTED.sub(" ", escaped)


def rfc5424(told: Told) -> bytes:
    """A syslog frame: what it is about as structured data, the whole record as the message."""
    record = told.record
    fields = {
        "number": told.entry.number,
        "hash": told.entry.hash,
        **{name: record[name] for name in ("id", "actor", "channel", "address")},
        **{name: record[name] for name in ("deploy", "application", "environment")},
    }
    message = told.entry.text
    if len(message) > _LONGEST_MESSAGE:
        message, fields["cut"] = message[:_LONGEST_MESSAGE], "true"
    said = " ".join(
        f'{name}="{_structured(str(value))}"' for name, value in fields.items() if value is not None
    )
    return _frame(told, f"[{_STRUCTURED} {said}]", f"\ufeff{message}")


def _structured(text: str) -> str:
    flat = _CONTROL.sub(" ", text)
    return flat.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]")


def _frame(told: Told, structured: str, message: str) -> bytes:
    """A message of RFC 5424 behind its length, as RFC 5425 wants it on TLS."""
    record = told.record
    priority = _FACILITY * 8 + (4 if told.is_failure else 6)
    host = _PRINTABLE.sub("", told.origin.host)[:255] or "-"
    action = _PRINTABLE.sub("", record["action"])[:32] or "-"
    head = f"<{priority}>1 {record['at']} {host} manent - {action} {structured} "
    body = f"{head}{message}".encode()
    return str(len(body)).encode() + b" " + body


FORMATS: Final[Mapping[str, Callable[[Told], bytes]]] = {
    "ocsf": ocsf,
    "ecs": ecs,
    "cef": cef,
    "rfc5424": rfc5424,
}
"""Every format, by its name in manent.yml."""


def render(name: str, entry: Entry, origin: Origin) -> bytes:
    """One record in one format, ready to be sent."""
    return FORMATS[name](Told(entry, audit.parse(entry.text), origin))
