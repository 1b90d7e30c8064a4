"""`{application}`, `{environment}`, `{target}` and `{version}` in texts filled at prepare."""

import re

PLACEHOLDERS = ("application", "environment", "target", "version")
_BRACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|\{")


def fill(text: str, *, application: str, environment: str, target: str, version: str) -> str:
    """The text with its placeholders filled in; `{{` is `{` and `}}` is `}`.

    Raises:
        ValueError: A placeholder that does not exist, or an open brace.
    """
    values = {
        "application": application,
        "environment": environment,
        "target": target,
        "version": version,
    }
    return _BRACE.sub(lambda match: _filled(match, values), text)


def check(text: str) -> str | None:
    """What is wrong with the placeholders of a text, or None."""
    try:
        fill(text, application="", environment="", target="", version="")
    except ValueError as error:
        return str(error)
    return None


def _filled(match: re.Match[str], values: dict[str, str]) -> str:
    if match[0] in {"{{", "}}"}:
        return match[0][0]
    name = match[1]
    if name in values:
        return values[name]
    known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
    found = f"{{{name[:40]}}} is no placeholder" if name else "an open { is no placeholder"
    raise ValueError(f"{found}; known are {known}, and {{{{ for a brace")
