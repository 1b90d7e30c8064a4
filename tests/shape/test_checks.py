"""The static checks, as tests: pytest's summary is the whole truth about a run."""

import pytest

from tests import gate


@pytest.mark.parametrize("name", gate.CHECKS)
@pytest.mark.timeout(300)
def test_the_tree_passes(name):
    code, said = gate.check(name)
    assert code == 0, said
