"""The keys of an environment that say when a deploy may run there."""

import contextlib
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from manent_server.domain import promotion, rules, windows
from manent_server.domain.promotion import Rule
from manent_server.domain.windows import Window
from manent_server.settings import checks, wave
from manent_server.settings.kinds import Choice, Duration, Name, Or, Text, YesNo
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


def _percent(text: str) -> str:
    if wave.percent(text) is None:
        raise ValueError("must be a whole percentage from 1% to 100%")
    return text


def _promotion(
    *, match: str, share: str, soak: Any, max_age: Any, **sources: tuple[str, ...]
) -> Rule:
    percent = wave.percent(share) or 100
    return Rule(sources["from"], match, percent, soak, max_age)


_PROMOTION = Section(
    (
        Key(
            "from",
            ListOf(Name("environment"), least=1, is_unique=True),
            REQUIRED,
            "environments a version has to run in before it may come here",
        ),
        Key(
            "match",
            Choice((promotion.ALL, promotion.ANY)),
            promotion.ALL,
            "whether in all of them or in any one",
        ),
        Key("share", Text("percentage", _percent), "100%", "how many of the targets there"),
        Key("soak", Duration(zero="at once"), "0s", "for how long without a break"),
        Key("max_age", Or(Duration()), "null", "how old its last success there may be"),
    ),
    _promotion,
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
    Key("promotion", Or(_PROMOTION), "null", "what a version has to show before it may come here"),
    Key("auto_promote", YesNo(), "false", "take up what the promotion rule lets through"),
    Key("windows", ListOf(_WINDOW), "[]", "when deploys may, or may not, start here"),
)
