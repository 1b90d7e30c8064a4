"""Which SQLite libraries the engine's tables work with."""

import pytest

from manent_server.domain.errors import ConfigurationError
from manent_server.engine.migration import demand_sqlite


def test_an_old_sqlite_is_refused_where_it_would_fail() -> None:
    with pytest.raises(ConfigurationError, match=r"SQLite 3\.40\.1; .* 3\.42"):
        demand_sqlite((3, 13), (3, 40, 1))


@pytest.mark.parametrize(
    ("python", "library"), [((3, 11), (3, 40, 1)), ((3, 12), (3, 42, 0)), ((3, 13), (3, 46, 1))]
)
def test_every_other_one_is_taken(python: tuple[int, int], library: tuple[int, int, int]) -> None:
    demand_sqlite(python, library)
