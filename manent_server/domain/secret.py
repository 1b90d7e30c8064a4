"""A secret: text that shows itself nowhere but where somebody asks for it by name."""

import hmac
import re
from typing import Final, NoReturn, Self

MASK: Final = "***"
_SECRET_NAME: Final = re.compile(
    r"(?:^|[_.-])(?:password|passwd|passphrase|secret|token|authorization|cookie"
    r"|api_?key|private_?key|access_?key|credentials?)$",
    re.IGNORECASE,
)


def names_a_secret(name: str) -> bool:
    """Whether what stands under such a name is a secret, by its last word."""
    return _SECRET_NAME.search(name) is not None


class Secret:
    """Text that cannot be printed, formatted, joined, pickled or written as JSON by accident.

    Whoever needs the text calls `reveal`, so that all such places can be found.

    Args:
        text: What must not be seen.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one place that needs it."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, _: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a secret is neither pickled nor stored")
