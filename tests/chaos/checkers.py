"""All checkers."""

from tests.chaos import (
    checkers_approvals,
    checkers_audit,
    checkers_hooks,
    checkers_rows,
    checkers_time,
    checkers_words,
)
from tests.chaos.checker import Checker, Violation
from tests.chaos.history import History

CHECKERS: tuple[Checker, ...] = (
    *checkers_approvals.CHECKERS,
    *checkers_audit.CHECKERS,
    *checkers_hooks.CHECKERS,
    *checkers_rows.CHECKERS,
    *checkers_time.CHECKERS,
    *checkers_words.CHECKERS,
)


def check(history: History) -> list[Violation]:
    """Everything that is wrong in a history."""
    return [violation for each in CHECKERS for violation in each(history)]
