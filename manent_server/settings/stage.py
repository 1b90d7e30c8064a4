"""The keys of an environment that say when a deploy may run there."""

import contextlib
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from manent_server.domain import rules, windows
from manent_server.domain.windows import Window
from manent_server.settings import checks
from manent_server.settings.kinds import Choice, Duration, Or, Text
from manent_server.settings.structures import REQUIRED, Key, ListOf, Section


def _rule(text: str) -> str:
    wrong = windows.check_rule(text)
    if wrong is not None:
        raise ValueError(wrong)
    return text


def timezone(text: str) -> str:
    """A zone of the IANA database."""
    # A name with a slash at its start or two dots is a ValueError, one of a folder an OSError.
    with contextlib.suppress(ValueError, OSError, KeyError):
        return ZoneInfo(text).key
    raise ValueError("must be a zone of the IANA database, e.g. Europe/Berlin or UTC")


def _window(
    allow: str | None, deny: str | None, duration: Any, timezone: str, reason: str | None
) -> Window:
    return Window(
        allows=allow is not None,
        rule=allow or deny or "",
        duration=duration,
        timezone=timezone,
        reason=reason,
    )


def _check_window(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    given = [name for name in ("allow", "deny") if found[name] is not None]
    if len(given) != 1:
        return [("deny", "one of allow and deny is needed, and only one")]
    if found["duration"] > windows.MAX_DURATION:
        return [("duration", f"must be at most {windows.MAX_DURATION.days} days")]
    return []


_RULE = Or(Text("recurrence rule of RFC 5545", _rule))
_WINDOW = Section(
    (
        Key("allow", _RULE, "null", "only within it may anything start, e.g. FREQ=DAILY;BYHOUR=9"),
        Key("deny", _RULE, "null", "nothing may start within it; beats allow"),
        Key("duration", Duration(), REQUIRED, "how long each occurrence lasts"),
        Key("timezone", Text("IANA zone", timezone), "UTC", "zone of the rule's hours"),
        Key("reason", Or(Text("text", checks.some_text)), "null", "why, for whoever meets it"),
    ),
    _window,
    _check_window,
)

GATES = (
    Key(
        "if_blocked",
        Choice((rules.WAIT, rules.REFUSE)),
        rules.WAIT,
        "what becomes of a request that meets a closed gate",
    ),
    Key(
        "collision",
        Choice(rules.COLLISIONS),
        rules.QUEUE,
        "when a deploy meets another of its application here: queue behind it, latest takes the "
        "place of those that wait, reject, or cancel_running",
    ),
    Key(
        "rollback_passes",
        ListOf(Choice(rules.PASSABLE), is_unique=True),
        f"[{', '.join(rules.PASSABLE)}]",
        "closed gates a rollback to what ran before is let through",
    ),
    Key(
        "freeze_running",
        Choice((rules.FINISH, rules.WAVE)),
        rules.FINISH,
        "what a freeze does to a running deploy: it finishes, or its wave alone does",
    ),
    Key("windows", ListOf(_WINDOW), "[]", "when deploys may, or may not, start here"),
)
