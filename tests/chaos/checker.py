"""Checkers: pure functions from a history to what is wrong in it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.chaos.history import History


@dataclass(frozen=True)
class Violation:
    """An invariant that did not hold, and where."""

    invariant: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"


Body = Callable[[History], Iterable[str]]
Checker = Callable[[History], list[Violation]]


def checker(invariant: str) -> Callable[[Body], Checker]:
    """Make a checker of a generator of complaints."""

    def made(body: Body) -> Checker:
        def check(history: History) -> list[Violation]:
            return [Violation(invariant, complaint) for complaint in body(history)]

        check.__doc__ = body.__doc__
        check.__name__ = body.__name__
        return check

    return made
