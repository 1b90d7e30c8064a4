"""The record as a file and over TLS, to receivers that really listen."""

import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from manent_server.domain.audit import Entry
from manent_server.observability.audit_file import AuditFile
from manent_server.observability.siem_stream import SiemStream, Trust
from tests.rig.process import until


def entries(first: int, last: int) -> list[Entry]:
    return [Entry(n, "0" * 64, f'{{"id":"r{n}"}}') for n in range(first, last + 1)]


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["number"] for line in path.read_text().splitlines()]


def test_the_file_has_a_line_for_each_and_is_nobody_elses(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    file = AuditFile(path, 10**6)
    file.give(entries(1, 3))
    assert file.confirmed() == 3
    file.give(entries(4, 4))
    assert numbers(path) == [1, 2, 3, 4]
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text().splitlines()[0])["record"] == {"id": "r1"}


def test_a_full_file_is_put_aside_and_none_is_lost(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    for number in range(1, 7):
        AuditFile(path, 200).give(entries(number, number))
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert [n for file in [*files[1:], files[0]] for n in numbers(file)] == [1, 2, 3, 4, 5, 6]
    assert files[1].name == "audit.jsonl.000000000002"


def test_a_line_cut_off_by_a_crash_spoils_only_itself(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"number":1,"ha')
    AuditFile(path, 10**6).give(entries(1, 2))
    torn, *whole = path.read_text().splitlines()
    assert torn == '{"number":1,"ha'
    assert [json.loads(line)["number"] for line in whole] == [1, 2]


def test_a_file_that_was_moved_away_begins_anew(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    file = AuditFile(path, 10**6)
    file.give(entries(1, 1))
    path.rename(tmp_path / "audit.jsonl.old")
    file.give(entries(2, 2))
    assert numbers(path) == [2]


def test_its_name_is_on_the_disk_before_anything_is_confirmed(tmp_path: Path):
    """Also where a process made it that crashed before; then only when it begins anew."""
    path, synced = tmp_path / "audit.jsonl", []

    def sync(folder: Path) -> None:
        synced.append(folder)
        if len(synced) == 1:
            raise OSError("no space")

    path.touch()
    file = AuditFile(path, 200, sync=sync)
    with pytest.raises(OSError, match="no space"):
        file.give(entries(1, 1))
    assert file.confirmed() == 0
    file.give(entries(1, 1))
    assert (file.confirmed(), len(synced)) == (1, 2)
    file.give(entries(2, 2))
    assert len(synced) == 3, "put aside"
    file.give(entries(3, 3))
    assert len(synced) == 3


def test_a_folder_that_is_gone_is_an_error(tmp_path: Path):
    with pytest.raises(OSError, match="No such file"):
        AuditFile(tmp_path / "gone" / "audit.jsonl", 100).give(entries(1, 1))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certification authority made here, and a certificate of it for localhost."""
    folder = tmp_path_factory.mktemp("ca")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    ca = ["-x509", "-subj", "/CN=test", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    _openssl(folder, "req", *key, *ca, "-keyout", "ca.key", "-out", "ca.pem")
    _openssl(folder, "req", *key, "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "csr")
    (folder / "extensions").write_text("subjectAltName=DNS:localhost\n")
    made = ["-CA", "ca.pem", "-CAkey", "ca.key", "-extfile", "extensions", "-CAcreateserial"]
    _openssl(folder, "x509", "-req", "-in", "csr", *made, "-out", "cert.pem")
    return folder


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)  # noqa: S607 - whichever is there


class Receiver:
    """Takes whatever is sent; can hang up."""

    def __init__(self, authority: Path, *, wants_client: bool = False) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(authority / "cert.pem", authority / "key.pem")
        if wants_client:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(authority / "ca.pem")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard = b""
        self._open: list[ssl.SSLSocket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def hang_up(self) -> None:
        for one in self._open:
            with suppress(OSError):  # its side may have ended before
                one.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            try:
                self._take(self._context.wrap_socket(plain, server_side=True))
            except OSError:
                plain.close()

    def _take(self, one: ssl.SSLSocket) -> None:
        self._open.append(one)
        with one:
            while data := one.recv(65536):
                self.heard += data


@pytest.fixture
def receiver(authority: Path) -> Iterator[Receiver]:
    made = Receiver(authority)
    yield made
    made.close()


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def stream(port: int, trust: Trust, clock: Clock) -> SiemStream:
    return SiemStream(
        ("localhost", port), trust, lambda entry: f"{entry.number}\n".encode(), clock=clock
    )


def test_records_arrive_and_count_when_the_connection_has_outlived_them(
    receiver: Receiver, authority: Path
):
    clock = Clock()
    sink = stream(receiver.port, Trust(ca=authority / "ca.pem"), clock)
    sink.give(entries(1, 2))
    until(lambda: receiver.heard == b"1\n2\n", what="two records")
    assert sink.confirmed() == 0
    clock.at = 1.5
    until(lambda: sink.confirmed() == 2, what="both confirmed")
    sink.give(entries(3, 3))
    until(lambda: receiver.heard == b"1\n2\n3\n", what="the third")
    sink.close()


def test_a_receiver_that_hangs_up_may_have_lost_what_it_was_sent(
    receiver: Receiver, authority: Path
):
    clock = Clock()
    sink = stream(receiver.port, Trust(ca=authority / "ca.pem"), clock)
    sink.give(entries(1, 2))
    until(lambda: receiver.heard == b"1\n2\n", what="two records")
    receiver.hang_up()
    clock.at = 5.0
    with pytest.raises(ConnectionError):
        until(lambda: sink.confirmed() == -1, what="an error")
    sink.close()
    sink.give(entries(1, 2))
    until(lambda: receiver.heard == b"1\n2\n" * 2, what="both again")
    sink.close()


def test_a_stranger_gets_nothing(receiver: Receiver, tmp_path: Path):
    with pytest.raises(ssl.SSLCertVerificationError):
        stream(receiver.port, Trust(), Clock()).give(entries(1, 1))
    assert receiver.heard == b""


def test_another_name_is_a_stranger(receiver: Receiver, authority: Path):
    sink = SiemStream(("127.0.0.1", receiver.port), Trust(ca=authority / "ca.pem"), lambda _: b"x")
    with pytest.raises(ssl.SSLCertVerificationError):
        sink.give(entries(1, 1))


def test_a_receiver_that_asks_who_sends_is_shown_a_certificate(authority: Path):
    receiver = Receiver(authority, wants_client=True)
    trust = Trust(authority / "ca.pem", authority / "cert.pem", authority / "key.pem")
    sink = stream(receiver.port, trust, Clock())
    sink.give(entries(1, 1))
    until(lambda: receiver.heard == b"1\n", what="the record")
    sink.close()
    receiver.close()


def test_nobody_there_is_an_error(authority: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        stream(port, Trust(ca=authority / "ca.pem"), Clock()).give(entries(1, 1))
