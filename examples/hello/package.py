"""Packs the hello service at three versions: `python examples/hello/package.py FOLDER`.

Writes `FOLDER/v1.tar.gz`, `v2.tar.gz` and `v3.tar.gz` and prints each with its SHA-256. The same
input gives the same bytes. v3 is broken on purpose: its greeting was forgotten, so it starts and
answers, and its health check says 503.
"""

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSIONS = ("v1", "v2", "v3")


def package(folder: Path) -> dict[str, Path]:
    """Pack every version into `folder`; return the files by version."""
    folder.mkdir(parents=True, exist_ok=True)
    packed = {}
    for version in VERSIONS:
        packed[version] = folder / f"{version}.tar.gz"
        packed[version].write_bytes(_archive(version))
    return packed


def _archive(version: str) -> bytes:
    files = {
        "hello.py": (HERE / "service" / "hello.py").read_bytes(),
        "VERSION": f"{version}\n".encode(),
    }
    greeting = HERE / "greetings" / f"{version}.txt"
    if greeting.exists():
        files["greeting.txt"] = greeting.read_bytes()
    packed = io.BytesIO()
    # A compressed file holds a time: 0 keeps the digest the same from run to run.
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def main() -> None:
    """Pack into the folder given as the only argument."""
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and one folder
        sys.exit("usage: python package.py FOLDER")
    for version, path in package(Path(sys.argv[1])).items():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        sys.stdout.write(f"{version} {path} {digest}\n")


if __name__ == "__main__":
    main()
