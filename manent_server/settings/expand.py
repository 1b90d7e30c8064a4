"""`${NAME}` in values: the only expansion there is, at load, from the environment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_DOLLAR = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<open>\{))")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Variable:
    """One `${NAME}`."""

    name: str


def parts(text: str) -> list[str | Variable]:
    """Literal text and variables, in order; `$$` is one `$`, any other bare `$` itself.

    Raises:
        ValueError: A `${` that is no `${NAME}`.
    """
    found: list[str | Variable] = []
    literal, at = "", 0
    for match in _DOLLAR.finditer(text):
        literal += text[at : match.start()]
        at = match.end()
        if match["open"]:
            raise ValueError("holds a ${ that is no ${NAME}; write $${ for the two characters")
        if match["name"] is None:
            literal += "$"
            continue
        found += [literal, Variable(match["name"])]
        literal = ""
    return [part for part in [*found, literal + text[at:]] if part != ""]


def value(variable: Variable, environ: Mapping[str, str]) -> str:
    """What the environment holds under this name.

    Raises:
        ValueError: The name is not set, or its value is no text.
    """
    found = environ.get(variable.name)
    if found is None:
        raise ValueError(
            f"${{{variable.name}}} is not set in the environment; a $ itself is written $$"
        )
    if _UNSTORABLE.search(found):
        raise ValueError(f"${{{variable.name}}} is not UTF-8 text")
    return found


def expand(text: str, environ: Mapping[str, str]) -> str:
    """The text with every variable filled in.

    Raises:
        ValueError: As `parts` and `value`.
    """
    return "".join(part if isinstance(part, str) else value(part, environ) for part in parts(text))
