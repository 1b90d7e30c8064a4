import contextlib
import gzip
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from manent_plugins.release.archive import describe, unpack
from manent_plugins.release.entries import ArchiveRefused, Limits

Member = tuple[tarfile.TarInfo, bytes]


def info(
    name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", **values: object
) -> Member:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.size = len(content)
    for attribute, value in values.items():
        setattr(member, attribute, value)
    return member, content


def tar(path: Path, *members: Member, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload] - a mode in a variable
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return path


def link(name: str, target: str) -> Member:
    return info(name, tarfile.SYMTYPE, linkname=target)


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "outer" / "into"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return tmp_path / "packed"


def nothing() -> None:
    pass


def demand_refused(packed: Path, into: Path, words: str, limits: Limits | None = None) -> None:
    """Refused, and nothing but the folder itself was touched."""
    beside = sorted(into.parent.parent.rglob("*"))
    with pytest.raises(ArchiveRefused) as refused:
        unpack(packed, into, limits=limits, on_entry=nothing)
    assert words in str(refused.value)
    now = {path for path in into.parent.parent.rglob("*") if not path.is_relative_to(into)}
    assert now == {path for path in beside if not path.is_relative_to(into)}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar_is_unpacked_with_its_modes_and_links(packed: Path, into: Path, mode: str) -> None:
    tar(
        packed,
        info("./bin", tarfile.DIRTYPE, mode=0o700),
        info("./bin/run", content=b"#!/bin/sh\n", mode=0o755),
        info("etc//deep/settings", content=b"x" * 512, mode=0o600),
        link("bin/latest", "../etc/deep"),
        info("hard", tarfile.LNKTYPE, linkname="./bin/run"),
        info("empty"),
        mode=mode,
    )
    manifest = unpack(packed, into, on_entry=nothing)
    assert (into / "bin" / "run").read_bytes() == b"#!/bin/sh\n"
    assert stat.S_IMODE((into / "bin" / "run").stat().st_mode) == 0o755
    assert stat.S_IMODE((into / "etc/deep/settings").stat().st_mode) == 0o600
    assert (into / "bin/latest/settings").read_bytes() == b"x" * 512
    assert (into / "hard").samefile(into / "bin" / "run")
    assert set(manifest) == {"bin/run", "etc/deep/settings", "bin/latest", "hard", "empty"}
    assert all(describe(into / name) == what for name, what in manifest.items())


def test_a_zip_is_unpacked_with_its_modes_and_links(packed: Path, into: Path) -> None:
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/", "")
        archive.writestr("folder/plain", "text")
        run = zipfile.ZipInfo("run")
        run.external_attr = (stat.S_IFREG | 0o755) << 16
        archive.writestr(run, "#!/bin/sh\n")
        symbolic = zipfile.ZipInfo("current")
        symbolic.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(symbolic, "folder")
    unpack(packed, into, on_entry=nothing)
    assert (into / "current" / "plain").read_text() == "text"
    assert stat.S_IMODE((into / "run").stat().st_mode) == 0o755
    assert (into / "current").is_symlink()


def test_special_modes_and_the_right_of_others_to_write_are_dropped(
    packed: Path, into: Path
) -> None:
    tar(packed, info("a", content=b"x", mode=0o6777), info("b", content=b"x", mode=0o000))
    unpack(packed, into, on_entry=nothing)
    assert stat.S_IMODE((into / "a").stat().st_mode) == 0o755
    assert stat.S_IMODE((into / "b").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../escaped", "leads out"),
        ("a/../../escaped", "leads out"),
        ("a/..", "leads out"),
        ("..", "leads out"),
        ("/tmp/escaped", "absolute"),  # noqa: S108 - it must not get there
        ("//etc/escaped", "absolute"),
        ("x" * 256, "no usable name"),
        ("\N{GREEK SMALL LETTER OMEGA}" * 128, "no usable name"),
        ("/".join(["d" * 200] * 6), "longer than 1024 bytes"),
    ],
)
def test_a_name_that_is_not_inside_is_refused(
    packed: Path, into: Path, name: str, words: str
) -> None:
    demand_refused(tar(packed, info(name, content=b"x")), into, words)


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped", "a/../../b"])  # noqa: S108 - it must not get there
def test_a_zip_with_a_name_that_is_not_inside_is_refused(
    packed: Path, into: Path, name: str
) -> None:
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(ArchiveRefused, match=r"leads out|absolute"):
        unpack(packed, into, on_entry=nothing)
    assert list(into.iterdir()) == []


@pytest.mark.parametrize(
    "members",
    [
        [link("a", "/etc"), info("a/passwd", content=b"x")],
        [link("a", ".."), info("a/escaped", content=b"x")],
        [link("a", "b"), info("b/c", content=b"x"), info("a/c", content=b"y")],
        [link("a", "../../outside")],
        [link("a", "/etc/passwd")],
        [link("a", "nowhere")],
        [link("a", "b"), link("b", "a")],
        [link("a", "a")],
        [link("a", "")],
        [info("d", tarfile.DIRTYPE), link("d/up", ".."), link("e", "d/up/.."), info("x")],
        [info("d", tarfile.DIRTYPE), link("d", "..")],
        [info("x", content=b"1"), info("x/y", content=b"2")],
        [info("h", tarfile.LNKTYPE, linkname="/etc/passwd")],
        [info("h", tarfile.LNKTYPE, linkname="../outer")],
        [info("h", tarfile.LNKTYPE, linkname="later"), info("later", content=b"x")],
        [info("x", content=b"1"), link("s", "x"), info("h", tarfile.LNKTYPE, linkname="s")],
        [link("s", ".."), info("h", tarfile.LNKTYPE, linkname="s/into")],
    ],
)
def test_links_that_lead_out_or_nowhere_or_are_written_through_are_refused(
    packed: Path, into: Path, members: list[Member]
) -> None:
    demand_refused(tar(packed, *members), into, "")


def test_a_path_too_long_to_resolve_does_not_count_as_inside(packed: Path, into: Path) -> None:
    """The way round the standard library's own filter found in 2025: links that expand."""
    step = "d" * 247
    members: list[Member] = []
    at = ""
    for letter in "abcdefghijklmnop":
        members += [info(f"{at}{step}", tarfile.DIRTYPE), link(f"{at}{letter}", step)]
        at = f"{at}{letter}/"
    way = "/".join("abcdefghijklmnop")
    members.append(link("escape", f"{way}/{'../' * 17}outside"))
    demand_refused(tar(packed, *members), into, "")


@pytest.mark.parametrize(
    "kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"Q"]
)
def test_devices_pipes_and_unknown_kinds_are_refused_or_plain(
    packed: Path, into: Path, kind: bytes
) -> None:
    tar(packed, info("thing", kind, devmajor=1, devminor=5))
    if kind == tarfile.CONTTYPE:  # by the format, to be read as a plain file
        unpack(packed, into, on_entry=nothing)
        assert (into / "thing").is_file()
        return
    demand_refused(packed, into, "'thing' is a device, a pipe or unknown")


@pytest.mark.parametrize(
    "make",
    [
        lambda: [info("a", content=b"1"), info("a", content=b"2")],
        lambda: [info("a", content=b"1"), info("./a", content=b"2")],
        lambda: [info("a", content=b"1"), link("a", "b"), info("b", content=b"2")],
        lambda: [info("b", content=b"1"), link("a", "b"), info("a", content=b"2")],
    ],
)
def test_a_name_that_comes_twice_is_refused(
    packed: Path, into: Path, make: Callable[[], list[Member]]
) -> None:
    demand_refused(tar(packed, *make()), into, "is in it twice")


def test_a_bomb_is_refused_before_it_is_on_disk(packed: Path, into: Path) -> None:
    limits = Limits(size=1024 * 1024, ratio=100_000)
    tar(packed, info("bomb", content=b"\0" * (64 * 1024 * 1024)))
    demand_refused(packed, into, "unpacks to more than 1048576 bytes", limits)
    assert (into / "bomb").stat().st_size <= 1024 * 1024


def test_a_bomb_is_told_by_its_ratio(packed: Path, into: Path) -> None:
    limits = Limits(ratio=100, ratio_from=1024 * 1024)
    tar(packed, info("bomb", content=b"\0" * (64 * 1024 * 1024)))
    demand_refused(packed, into, "unpacks to more than", limits)


def test_a_zip_bomb_whose_entries_share_their_bytes_is_refused(packed: Path, into: Path) -> None:
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(20):
            archive.writestr(str(number), b"\0" * 1024 * 1024)
    demand_refused(packed, into, "unpacks to more than", Limits(size=8 * 1024 * 1024))


def test_a_header_that_claims_gigabytes_is_not_read_into_memory(packed: Path, into: Path) -> None:
    header = tarfile.TarInfo("pax")
    header.type = tarfile.XHDTYPE
    header.size = 3 * 1024**3
    with gzip.open(packed, "wb") as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT))
        file.write(b"\0" * (20 * 1024 * 1024))
    demand_refused(packed, into, "a header claims more than 16 MiB")


def test_a_sparse_file_that_claims_a_terabyte_is_refused(packed: Path, into: Path) -> None:
    member, _ = info("sparse", tarfile.GNUTYPE_SPARSE)
    block = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    block[386:410] = b"00000000000\0" + b"00000000000\0"  # one empty region
    block[483:495] = b"77777777777\0"  # 8 GiB in all
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    packed.write_bytes(bytes(block) + b"\0" * 1024)
    demand_refused(packed, into, "unpacks to more than", Limits(size=1024 * 1024))


def test_too_many_entries_are_refused(packed: Path, into: Path) -> None:
    tar(packed, *[info(str(number)) for number in range(11)])
    demand_refused(packed, into, "holds more than 10 entries", Limits(entries=10))


@pytest.mark.parametrize(
    "content", [b"", b"plain text", b"\x1f\x8bnot really", b"PK\x03\x04short", b"\0" * 10240]
)
def test_what_is_no_archive_is_refused(packed: Path, into: Path, content: bytes) -> None:
    packed.write_bytes(content)
    demand_refused(packed, into, "")


def test_an_archive_cut_off_anywhere_is_refused(packed: Path, into: Path, tmp_path: Path) -> None:
    for mode in ("w", "w:gz"):
        tar(packed, info("a", content=os.urandom(3000)), info("b", content=b"x" * 600), mode=mode)
        whole = packed.read_bytes()
        last = 512 * 2 + 3072 + 1024 if mode == "w" else len(whole)
        for number, length in enumerate(range(0, last, 97)):
            packed.write_bytes(whole[:length])
            folder = tmp_path / mode.replace(":", "") / str(number)
            folder.mkdir(parents=True)
            with pytest.raises(ArchiveRefused):
                unpack(packed, folder, on_entry=nothing)


def test_a_damaged_header_in_the_middle_is_not_taken_for_the_end(packed: Path, into: Path) -> None:
    tar(packed, info("a", content=b"x" * 512), info("b", content=b"y"), mode="w")
    whole = bytearray(packed.read_bytes())
    whole[1024 + 10] ^= 0xFF
    packed.write_bytes(whole)
    demand_refused(packed, into, "damaged or cut off")


def test_flipped_bytes_never_raise_anything_else(packed: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", "hello" * 100)
    sources = [packed.read_bytes()]
    for mode in ("w", "w:gz"):
        tar(packed, info("a" * 120, content=b"hello" * 100), link("s", "a" * 120), mode=mode)
        sources.append(packed.read_bytes()[:6000])
    number = 0
    for source in sources:
        for position in range(0, len(source), max(1, len(source) // 300)):
            for flip in (0x01, 0x80, 0xFF):
                changed = bytearray(source)
                changed[position] ^= flip
                packed.write_bytes(changed)
                folder = tmp_path / "out" / str(number)
                folder.mkdir(parents=True)
                number += 1
                with contextlib.suppress(ArchiveRefused):
                    unpack(packed, folder, on_entry=nothing)
    assert {path.name for path in tmp_path.iterdir()} == {"packed", "out"}


def test_an_encrypted_zip_is_refused(packed: Path, into: Path) -> None:
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a", "x")
    content = bytearray(packed.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    packed.write_bytes(content)
    demand_refused(packed, into, "encrypted")


def test_names_in_any_alphabet_are_kept_byte_for_byte(packed: Path, into: Path) -> None:
    composed, decomposed = "caf\xe9", "cafe\u0301"
    tar(
        packed,
        info(composed, content=b"1"),
        info(decomposed, content=b"2"),
        info("a b\n", content=b"3"),
    )
    unpack(packed, into, on_entry=nothing)
    assert {path.name for path in into.iterdir()} == {composed, decomposed, "a b\n"}


def test_an_archive_without_a_file_is_refused(packed: Path, into: Path) -> None:
    demand_refused(tar(packed, info("only", tarfile.DIRTYPE)), into, "holds no file")


def test_unpacking_stops_when_it_is_told_to(packed: Path, into: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop() -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        unpack(tar(packed, info("a", content=b"x")), into, on_entry=stop)
    assert list(into.iterdir()) == []
