"""The keys of an environment that say when a deploy may run there."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

from manent_server.domain import approval, promotion, rules, windows
from manent_server.domain.promotion import Rule
from manent_server.domain.rules import Rules
from manent_server.domain.windows import Window
from manent_server.settings import checks, wave
from manent_server.settings.kinds import Choice, Duration, Name, Or, Text, Whole, YesNo
from manent_server.settings.node import Node
from manent_server.settings.reading import INVALID, Invalid, Reading
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

_NAMES = ListOf(Text("name", checks.some_text), is_unique=True)


def _approval(**found: Any) -> approval.Rule:
    """Where `unknown_requester` is left to the tier it is empty until that is known."""
    return approval.Rule(
        name=found["name"],
        quorum=found["quorum"],
        members=found["from"],
        required=found["required"],
        expires=found["expires"],
        chat=found["chat"],
        unknown_requester=found["unknown_requester"] or "",
    )


_APPROVAL = Section(
    (
        Key("name", Name("rule"), REQUIRED, "of the rule"),
        Key("quorum", Whole(), "1", "how many people have to approve, each counted once"),
        Key(
            "from",
            _NAMES,
            "[]",
            "groups, people and programs whose approval counts; [] = all who may approve there",
        ),
        Key("required", _NAMES, "[]", "of each of these groups one has to approve, too"),
        Key("expires", Or(Duration()), "24h", "how long it is waited for; null = for ever"),
        Key("chat", ListOf(Name("chat"), is_unique=True), "[]", "chats in which it is asked"),
        Key(
            "unknown_requester",
            Or(Choice(approval.UNKNOWN_REQUESTER)),
            "null",
            "when a program asks and nobody knows for whom; null = refuse in tier production, "
            "else allow",
        ),
    ),
    _approval,
)


@dataclass(frozen=True)
class _Approvals(ListOf):
    """Rules, each by a name of its own."""

    def read(self, node: Node, reading: Reading) -> tuple[Any, ...] | Invalid:
        """The rules in the order written."""
        found = super().read(node, reading)
        if found is INVALID:
            return found
        names = [rule.name for rule in found]
        if len(set(names)) < len(names):
            return reading.refuse(node, "has two rules of one name")
        return found


def of_tier(rules: Rules, tier: str) -> Rules:
    """The rules with what they leave to the tier of their environment."""
    default = approval.REFUSE if tier == "production" else approval.ALLOW
    return replace(
        rules,
        approvals=tuple(
            replace(rule, unknown_requester=rule.unknown_requester or default)
            for rule in rules.approvals
        ),
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
    Key("approvals", _Approvals(_APPROVAL), "[]", "who has to agree before a deploy may start"),
    Key("windows", ListOf(_WINDOW), "[]", "when deploys may, or may not, start here"),
)
