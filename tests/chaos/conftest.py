"""A core on a database of its own, and real guards."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.bench import PROBE, Bench
from tests.rig import core as cores
from tests.rig.core import Core, Ground

OpenBench = Callable[[], Any]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    ground = cores.lay(f"sqlite:///{tmp_path_factory.mktemp('chaos') / 'manent.db'}")
    yield ground
    ground.close()


@pytest.fixture
def core(ground: Ground, tmp_path: Path) -> Core:
    return cores.build(ground, cores.read_settings(tmp_path))


@pytest.fixture
def open_bench(tmp_path_factory: pytest.TempPathFactory) -> OpenBench:
    """A runner with a zygote of its own: one started in a mutant is a mutant too."""

    @contextmanager
    def opened() -> Iterator[Bench]:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(PROBE))
            bench = Bench(tmp_path_factory.mktemp("bench"))
            try:
                yield bench
            finally:
                bench.runner.close()

    return opened
