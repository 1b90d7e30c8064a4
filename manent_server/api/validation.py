"""What is wrong with a body or a query, said without repeating what was sent."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from manent_server.api.fields import PATTERNS_IN_WORDS
from manent_server.domain.errors import Invalid
from manent_server.domain.names import nearest

MAX_FINDINGS = 50
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}")
_TYPES = {
    "string": "text",
    "bool": "true or false",
    "int": "a whole number",
    "list": "a list",
    "tuple": "a list",
    "dict": "an object",
    "model": "an object",
    "model_attributes": "an object",
}


def _characters(count: int) -> str:
    return "1 character" if count == 1 else f"{count} characters"


def _rule(pattern: str) -> str:
    return PATTERNS_IN_WORDS.get(pattern, pattern)


_MESSAGES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": lambda _: "is required",
    "string_too_long": lambda known: f"is longer than {known['max_length']} characters",
    "string_too_short": lambda known: f"is shorter than {_characters(known['min_length'])}",
    "string_pattern_mismatch": lambda known: f"does not match {_rule(known['pattern'])}",
    "too_long": lambda known: f"has more than {known['max_length']} items",
    "too_short": lambda known: f"has fewer than {known['min_length']} items",
    "literal_error": lambda known: f"must be {known['expected']}",
    "enum": lambda known: f"must be {known['expected']}",
    "greater_than_equal": lambda known: f"must be at least {known['ge']}",
    "less_than_equal": lambda known: f"must be at most {known['le']}",
    "value_error": lambda known: str(known["error"]),
}


def invalid(
    found: Iterable[Mapping[str, Any]], *, known: Collection[str] = (), where: str
) -> Invalid:
    """The refusal that lists every finding.

    Args:
        found: Findings as pydantic gives them.
        known: Names that are accepted, so that the nearest to an unknown one can be named.
        where: "body", "query" or "header": the first word of the sentence.
    """
    errors = [_finding(error, known) for error in list(found)[:MAX_FINDINGS]]
    named = ", ".join(sorted({error["path"] for error in errors if error["path"]}))
    return Invalid(
        f"the {where} is not acceptable" + (f": {named}" if named else ""),
        next="correct what errors lists and send it again",
        errors=errors,
    )


def unknown_parameter(name: str, known: Collection[str]) -> dict[str, str]:
    """The finding about a query parameter nobody reads."""
    return {"path": _part(name), "message": _unknown(name, known)}


def findings(error: ValidationError) -> Sequence[Mapping[str, Any]]:
    """Pydantic's findings without the input in them."""
    return error.errors(include_url=False, include_input=True)


def _finding(error: Mapping[str, Any], known: Collection[str]) -> dict[str, str]:
    places = error["loc"][1:]
    path = ".".join(_part(place) for place in places)
    if error["type"] == "extra_forbidden":
        return {"path": path, "message": _unknown(str(places[-1]), known)}
    return {"path": path, "message": _message(error)}


def _message(error: Mapping[str, Any]) -> str:
    say = _MESSAGES.get(error["type"])
    if say is not None:
        return say(error.get("ctx", {}))
    wanted = _TYPES.get(error["type"].removesuffix("_type").removesuffix("_parsing"))
    if wanted is None:
        return "is not acceptable"
    if wanted == "text" and isinstance(error.get("input"), int | float):
        return 'must be text: quote it ("1.10", not 1.10)'
    return f"must be {wanted}"


def _unknown(name: str, known: Collection[str]) -> str:
    like = nearest(name, known)
    if like:
        return f"is not known; did you mean {like}?"
    return f"is not known; known are {', '.join(sorted(known))}" if known else "is not known"


def _part(place: object) -> str:
    text = str(place)
    return text if isinstance(place, int) or _WORD.fullmatch(text) else "?"
