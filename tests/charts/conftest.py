"""Both releases of Helm."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.charts.chart import HELMS, Helm, present
from tests.rig import tools


@pytest.fixture(params=HELMS)
def each_helm(request: pytest.FixtureRequest, tmp_path: Path) -> Helm:
    """Helm 3 and Helm 4."""
    return Helm(present(lambda: tools.helm(request.param)), tmp_path)


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    """The newer one: what depends on values does not depend on the release."""
    return Helm(present(lambda: tools.helm(HELMS[-1])), tmp_path)


@pytest.fixture
def validate(tmp_path: Path) -> Callable[[str, str], None]:
    """Compare rendered text with the schemas of a release of Kubernetes."""
    place = present(tools.schemas)
    command = [sys.executable, str(place / "bin" / "kubernetes-validate"), "--strict", "-k"]

    def compare(text: str, release: str) -> None:
        ended = subprocess.run(
            [*command, release, "-"],
            input=text, env={"PYTHONPATH": str(place), "PATH": os.defpath},
            text=True, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "passed for resource statefulset/" in ended.stdout + ended.stderr

    return compare
