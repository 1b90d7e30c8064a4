"""Types of single fields: what JSON may say there, and how it is documented."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from manent_server.domain import duration

# The largest number every reader of JSON keeps exactly.
MAX_COUNT = 2**53 - 1
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_INSTANT = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
# Text a person wrote: not blank, no control characters but the ends of lines.
_CONTROL = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f"
# Two blanks that not every language's `\s` holds, and signs that show nothing: named, the pattern
# means the same to all.
_BLANK = r"\s\x85\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
PROSE = rf"^[^{_CONTROL}]*[^{_BLANK}{_CONTROL}][^{_CONTROL}]*$"
_URL = r"^https?://[!-~]+$"
_DIGEST = r"^[0-9a-f]{64}$"
_NAMES = r"^[a-z0-9*?][a-z0-9*?._-]{0,62}$"
_DURATION = r"^([0-9]{1,5}[smhd]){1,4}$"
_SIGNED = r"^[A-Za-z0-9_.-]+$"
PATTERNS_IN_WORDS = {
    PROSE: "the rule for text: a visible character at least, and no control characters but tabs "
    "and ends of lines",
    _URL: "the rule for links: http:// or https:// and printable ASCII characters without blanks",
    _DIGEST: "the rule for digests: 64 of 0-9 and a-f",
    _NAMES: "the rule for patterns of names: a name, in which * and ? stand for any characters",
    _DURATION: "the rule for durations: such as 90d or 12h",
    _SIGNED: "the rule for signed tokens: three parts in base64url, separated by dots",
}
"""What a pattern asks for, for people."""
_DIGITS = re.compile(r"[0-9]{1,19}")


def instant(value: Any) -> datetime:
    """The instant an RFC 3339 text names, in UTC."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise ValueError("must be an instant as in 2027-01-31T18:00:00Z")
    try:
        return datetime.fromisoformat(_microseconds(value).upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("must be an instant that exists") from None


def _day(value: Any) -> date:
    if isinstance(value, date):
        return value
    if not isinstance(value, str) or not _DAY.fullmatch(value):
        raise ValueError("must be a day as in 2027-01-31")
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise ValueError("must be a day that exists") from None


def _microseconds(text: str) -> str:
    return re.sub(r"(\.\d{6})\d+", r"\1", text)


def _span(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    return duration.parse(value if isinstance(value, str) else "")


def _count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str) or not _DIGITS.fullmatch(value):
        raise ValueError("must be a whole number")
    return int(value)


def whole(value: Any) -> Any:
    """JSON knows one kind of number: 1.0 is the whole number 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


# Names and versions are judged by the use case, which knows the nearest existing one; the
# pattern here only documents them. An empty one never stands for "any".
_GIVEN = StringConstraints(min_length=1)
Name = Annotated[
    str, _GIVEN, WithJsonSchema({"type": "string", "pattern": r"^[a-z0-9][a-z0-9._-]{0,62}$"})
]
Version = Annotated[
    str,
    _GIVEN,
    WithJsonSchema({"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$"}),
]
Digest = Annotated[str, StringConstraints(pattern=_DIGEST)]
Instant = Annotated[
    datetime,
    BeforeValidator(instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Day = Annotated[
    date, BeforeValidator(_day), WithJsonSchema({"type": "string", "format": "date"})
]  # fmt: skip
Reason = Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=PROSE)]
NamePattern = Annotated[str, StringConstraints(pattern=_NAMES)]
Lasting = Annotated[str, StringConstraints(pattern=_DURATION)]
Signed = Annotated[str, StringConstraints(min_length=1, max_length=16384, pattern=_SIGNED)]
Link = Annotated[str, StringConstraints(max_length=2000, pattern=_URL)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=PROSE)]
# As long as Matrix lets one be.
Account = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=PROSE)]
StepName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=PROSE)]
Sequence = Annotated[int, Field(ge=0, le=MAX_COUNT), BeforeValidator(whole)]
Span = Annotated[
    timedelta,
    BeforeValidator(_span),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,5}(ms|s|m|h)$"}),
]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT), BeforeValidator(whole)]
Priority = Annotated[int, Field(ge=0, le=1000), BeforeValidator(whole)]
# Query parameters are text: only plain digits count as a number.
After = Annotated[int, Field(ge=0, le=MAX_COUNT), BeforeValidator(_count)]
Limit = Annotated[int, Field(ge=1, le=500), BeforeValidator(_count)]
Few = Annotated[int, Field(ge=1, le=100), BeforeValidator(_count)]
LogLimit = Annotated[int, Field(ge=1, le=5000), BeforeValidator(_count)]
Address = Annotated[
    str,
    Path(
        description="Id, unique beginning of one, or `application/environment#number`.",
        examples=["shop/production#12"],
    ),
]
SortName = Literal["lock", "freeze", "hold", "veto", "stop"]
UpperCase = BeforeValidator(_upper)
