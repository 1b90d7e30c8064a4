"""Each format, read back by a reader of its own: nothing a caller writes can break out of it."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from manent_server.domain import audit
from manent_server.domain.audit import Entry, Head
from manent_server.observability import siem
from manent_server.observability.siem import FORMATS, Origin

AT = datetime(2027, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
EVIL = 'a|b\\c=d"e]f\r\n<110>1 - - - - - forged\nCEF:0|x\u2028é'
ORIGIN = Origin("deploy host\n", "0.1.0")


def entry(action: str = "lock.set", actor: str = "ann", **rest: Any) -> Entry:
    head = Head("r1", AT, actor, action, "d1", "shop", "production")
    return Entry(7, "ab" * 32, audit.text(head, rest))


def frames(data: bytes) -> Iterator[str]:
    """What octet counting says there is."""
    while data:
        length, _, rest = data.partition(b" ")
        yield rest[: int(length)].decode()
        data = rest[int(length) :]


SYSLOG = re.compile(
    r"<(?P<pri>\d{1,3})>1 (?P<at>\S+) (?P<host>[!-~]{1,255}) (?P<app>[!-~]{1,48}) - "
    r"(?P<id>[!-~]{1,32}) (?P<sd>-|\[.*?(?<!\\)\]) (?P<message>.*)",
    re.DOTALL,
)
PARAMETER = re.compile(r' ([^= \]"]{1,32})="((?:[^"\\\]]|\\.)*)"')


def rfc5424(data: bytes) -> dict[str, Any]:
    [frame] = frames(data)
    found = SYSLOG.fullmatch(frame)
    assert found is not None
    assert "\n" not in frame
    said = dict(PARAMETER.findall(found["sd"]))
    record = json.loads(found["message"].removeprefix("\ufeff"))
    return {
        "actor": re.sub(r"\\(.)", r"\1", said["actor"]),
        "action": found["id"],
        "number": int(said["number"]),
        "hash": said["hash"],
        "is_failure": int(found["pri"]) == 13 * 8 + 4,
        "text": record,
    }


def cef(data: bytes) -> dict[str, Any]:
    [frame] = frames(data)
    assert "\n" not in frame
    found = SYSLOG.fullmatch(frame)
    assert found is not None
    parts = re.split(r"(?<!\\)\|", found["message"], maxsplit=7)
    assert parts[:3] == ["CEF:0", "manent", "manent"]
    pairs = re.findall(r"(\w+)=((?:\\.|[^\\=])*?)(?= \w+=|$)", parts[7])
    said = {name: _plain(value) for name, value in pairs}
    assert said["cn1Label"] == "number"
    assert said["rt"] == str(int(AT.timestamp() * 1000))
    return {
        "actor": said["suser"],
        "action": said["act"],
        "number": int(said["cn1"]),
        "hash": said["cs1"],
        "is_failure": said["outcome"] == "failure" and parts[6] == "6",
        "text": json.loads(said["cs6"]),
    }


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r"}.get(m[1], m[1]), text)


def one_line(data: bytes) -> dict[str, Any]:
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    found: dict[str, Any] = json.loads(data)
    return found


def ocsf(data: bytes) -> dict[str, Any]:
    found = one_line(data)
    assert found["type_uid"] == found["class_uid"] * 100 + found["activity_id"]
    assert found["category_uid"] == found["class_uid"] // 1000
    assert {"metadata", "time", "severity_id", "actor", "src_endpoint"} <= found.keys()
    assert found["metadata"]["product"]["vendor_name"] == "manent"
    assert (found["class_uid"] == 6003) == ("api" in found)
    assert (found["class_uid"] == 6002) == ("app" in found)
    assert (found["class_uid"] == 3002) == ("user" in found)
    return {
        "actor": found["actor"]["user"]["name"],
        "action": found["activity_name"],
        "number": found["metadata"]["sequence"],
        "hash": found["unmapped"]["hash"],
        "is_failure": found["status_id"] == 2,
        "text": json.loads(found["raw_data"]),
    }


def ecs(data: bytes) -> dict[str, Any]:
    found = one_line(data)
    event = found["event"]
    assert event["kind"] == "event"
    assert found["@timestamp"] == audit.instant(AT)
    assert event["category"][0] in CATEGORIES
    return {
        "actor": found["user"]["name"],
        "action": event["action"],
        "number": event["sequence"],
        "hash": found["labels"]["hash"],
        "is_failure": event["outcome"] == "failure",
        "text": json.loads(event["original"]),
    }


CATEGORIES = {"authentication", "api", "package", "iam", "configuration"}
READERS: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "rfc5424": rfc5424,
    "cef": cef,
    "ocsf": ocsf,
    "ecs": ecs,
}


def test_each_format_has_its_reader():
    assert READERS.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("actor", ["ann", EVIL])
def test_a_format_says_what_the_record_says(name: str, actor: str):
    """Conformance: escaping, injection by newline, whole text."""
    made = entry(actor=actor, channel="cli", address="192.0.2.7", detail={"reason": EVIL})
    found = READERS[name](siem.render(name, made, ORIGIN))
    # Structured data keeps to one line whatever a receiver takes for its end.
    said = re.sub("[\r\n\u2028]", " ", actor) if name == "rfc5424" else actor
    assert found.pop("actor") == said
    assert found == {
        "action": "lock.set",
        "number": 7,
        "hash": "ab" * 32,
        "is_failure": False,
        "text": json.loads(made.text),
    }


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("action", "detail"),
    [
        ("access.signin_failed", {}),
        ("access.refused", {"code": "not_allowed"}),
        ("chat.refused", {"fault": "forged"}),
        ("deploy.ended", {"outcome": "failed"}),
    ],
)
def test_what_failed_is_told_as_a_failure(name: str, action: str, detail: dict[str, Any]):
    made = entry(action, detail=detail)
    assert READERS[name](siem.render(name, made, ORIGIN))["is_failure"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_good_end_is_none(name: str):
    made = entry("deploy.ended", detail={"outcome": "deployed"})
    assert not READERS[name](siem.render(name, made, ORIGIN))["is_failure"]


@pytest.mark.parametrize("name", ["cef", "rfc5424"])
def test_a_frame_is_bounded(name: str):
    made = entry(actor="a" * 5000, detail={"reason": "é" * 500_000})
    [frame] = frames(siem.render(name, made, ORIGIN))
    assert len(frame) < 80_000
    if name == "cef":
        assert len(re.findall(r"suser=(a+)", frame)[0]) == 1023
    else:
        assert 'cut="true"' in frame


def test_two_frames_are_two():
    data = siem.render("rfc5424", entry(actor=EVIL), ORIGIN) * 2
    assert len(list(frames(data))) == 2


def test_what_is_no_address_is_no_source():
    assert b'"source"' not in siem.render("ecs", entry(address="testclient"), ORIGIN)
    assert b"192.0.2.7" in siem.render("cef", entry(address="192.0.2.7"), ORIGIN)
