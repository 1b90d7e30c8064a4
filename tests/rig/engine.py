"""A Docker engine of its own, without networks: containers use the machine's."""

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from tests.rig.process import Process, until
from tests.rig.tools import Missing

# What Debian's own Python and a shell consist of, with what they are linked against.
_PACKAGES = """
    python3 python3-minimal python3.11 python3.11-minimal libpython3.11-minimal python3.11-venv
    libpython3.11-stdlib python3-distutils python3-lib2to3 python3-pip-whl python3-setuptools-whl
    libc6 libgcc-s1 libstdc++6 libcrypt1 zlib1g libexpat1 libbz2-1.0 liblzma5 libffi8 libuuid1
    libsqlite3-0 libssl3 libreadline8 libncursesw6 libtinfo6 libdb5.3 libnsl2 libtirpc3
    libgssapi-krb5-2 libkrb5-3 libkrb5support0 libk5crypto3 libcom-err2 libkeyutils1 media-types
    dash coreutils libselinux1 libpcre2-8-0 libacl1 libattr1 libgmp10 tzdata base-files
"""
_MERGED = ("bin", "lib", "lib64", "sbin")


class Engine:
    """One dockerd with everything of it in one folder.

    Raises:
        Missing: There is none, or this user may not run one.
    """

    def __init__(self, folder: Path) -> None:
        found = shutil.which("dockerd"), shutil.which("docker")
        if not all(found) or os.geteuid() != 0:
            raise Missing("no container engine here: install docker.io and be root")
        self._daemon, self._client = map(str, found)
        self._folder = folder
        self._environ = {
            "PATH": f"{os.defpath}:/usr/sbin:/sbin",
            "HOME": str(folder),
            "DOCKER_HOST": f"unix://{folder}/docker.sock",
            "DOCKER_BUILDKIT": "0",
        }
        self._process: Process | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        place = self._folder
        command = [
            self._daemon, "--host", f"unix://{place}/docker.sock", "--data-root", f"{place}/data",
            "--exec-root", f"{place}/exec", "--pidfile", f"{place}/pid", "--bridge", "none",
            "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
            "--log-level", "warn",
        ]  # fmt: skip
        self._process = Process(command, log=place / "engine.log", environ=self._environ)
        try:
            until(lambda: self.run("version", check=False).returncode == 0, what="engine", limit=60)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it and its containers."""
        if self._process is not None:
            self._process.stop(limit=60)

    def run(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """One command of the client."""
        ended = subprocess.run(
            [self._client, *arguments],
            env=self._environ, text=True, capture_output=True, timeout=600, check=False,
        )  # fmt: skip
        if check and ended.returncode != 0:
            raise AssertionError(f"docker {' '.join(arguments)}:\n{ended.stdout}{ended.stderr}")
        return ended

    def inspect(self, name: str) -> dict[str, Any]:
        """What the engine knows of an image or a container."""
        found: dict[str, Any] = json.loads(self.run("inspect", name).stdout)[0]
        return found

    def import_python(self, name: str) -> None:
        """An image with the Python of this Debian: no registry can be reached for another.

        Raises:
            Missing: This is not that Debian.
        """
        archive = self._folder / "python.tar"
        with tarfile.open(archive, "w") as tar:
            paths = {path: _merged(path) for path in sorted(set(_files(_PACKAGES)))}
            above = {str(one) for kept in paths.values() for one in Path(kept).parents}
            for folder in sorted((above | {"tmp"}) - {"."}):
                tar.addfile(_folder(folder, 0o1777 if folder == "tmp" else 0o755))
            for link in _MERGED:
                entry = tarfile.TarInfo(link)
                entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{link}"
                tar.addfile(entry)
            for path, kept in paths.items():
                tar.add(path, arcname=kept, recursive=False)
        self.run("import", str(archive), name)
        archive.unlink()


def _files(packages: str) -> Iterator[str]:
    ended = subprocess.run(
        [str(shutil.which("dpkg-query")), "--listfiles", *packages.split()],
        text=True, capture_output=True, check=False,
    )  # fmt: skip
    if ended.returncode != 0:
        raise Missing(f"no Debian 12 here with python3-venv: {ended.stderr.strip()[-200:]}")
    for line in ended.stdout.splitlines():
        path = Path(line)
        if path.parent != Path("/") and (path.is_symlink() or path.is_file()):
            yield line


def _merged(path: str) -> str:
    first = path.split("/", 2)[1]
    return f"usr{path}" if first in _MERGED else path.lstrip("/")


def _folder(name: str, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    return entry
