"""Cases on two databases: each on one of them in every run, on both in `make soak`.

For what is the same code on either database, where a case costs a start of a server. What a
database could do differently is tested on both in every run.
"""

from collections.abc import Iterable
from typing import Any

import pytest

DATABASES = ("sqlite", "postgres")


def alternating(wanted: Iterable[Any], *, first: int = 0) -> list[Any]:
    """Pairs of a database and a value; every second one is for `make soak`.

    They are the parameters of a test: `("shared", name)`, with `indirect=["shared"]`.

    Args:
        wanted: The values of the case.
        first: Which database the first value has in every run.
    """
    values = list(wanted)
    return [
        pytest.param(
            database,
            value,
            id=f"{database}-{value}",
            marks=_marks(database, is_long=DATABASES[(at + first) % 2] != database),
        )
        # By database first: with one process the next server ends the one before.
        for database in DATABASES
        for at, value in enumerate(values)
    ]


def only(database: str) -> pytest.MarkDecorator:
    """The shared server on this database alone."""
    one = pytest.param(database, marks=_marks(database, is_long=False))
    return pytest.mark.parametrize("shared", [one], indirect=True)


def mostly(database: str) -> pytest.MarkDecorator:
    """The shared server on this database, on the other one in `make soak`."""
    both = [pytest.param(one, marks=_marks(one, is_long=one != database)) for one in DATABASES]
    return pytest.mark.parametrize("shared", both, indirect=True)


def _marks(database: str, *, is_long: bool) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.postgres] if database == "postgres" else []
    return [*marks, pytest.mark.soak] if is_long else marks
