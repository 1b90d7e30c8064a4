"""Deploys with the whole record on, beside the same build without any.

On: rows, chain, signed checkpoints, the file, and a receiver over TLS that takes everything. Off:
no row is written, so nothing is chained and nothing sent; events are told as ever.
"""

import socket
import ssl
import subprocess
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.deploys import Burst
from bench.ratios import Goal, Pair, interleave
from bench.report import Figure, ratio
from bench.sides import Ours
from bench.size import Size
from tests.rig.postgres import Postgres
from tests.rig.process import until

_GOAL = Goal(0.9, is_floor=True)


def beside_none(folder: Path, settings: Mapping[str, str], size: Size) -> list[Figure]:
    """Two servers, each with a database of its own, in turns."""
    folder.mkdir()
    postgres = Postgres(settings=settings)
    with ExitStack() as stack:
        stack.callback(postgres.close)
        receiver = _Receiver(folder)
        stack.callback(receiver.close)
        on = Ours(
            folder / "on",
            postgres.create_database(),
            lines=size.lines,
            config={"audit": _everything(folder, receiver.port)},
        )
        stack.callback(on.close)
        off = Ours(
            folder / "off",
            postgres.create_database(),
            lines=size.lines,
            config={"audit": {"file": None}},
            environ={"BENCH_UNAUDITED": "1"},
        )
        stack.callback(off.close)
        for side in (on, off):
            side.wait([side.submit(place) for place in range(8)])
        return [_compared(on, off, size, receiver)]


def _compared(on: Ours, off: Ours, size: Size, receiver: "_Receiver") -> Figure:
    mine, other = Burst(on, size), Burst(off, size)
    probes = interleave(size.pairs, mine, other)
    written, none = _count(on), _count(off)
    if none or not written:
        raise AssertionError(f"{written} and {none} deeds of deploys are on record")
    until(lambda: receiver.heard >= written, what="the receiver to have it all", limit=60)
    pairs = [
        Pair(rate, base, one / another - 1)
        for rate, base, (one, another) in zip(mine.rates, other.rates, probes, strict=True)
    ]
    name = "throughput with the record on (chain, file, SIEM), beside none"
    return ratio(name, "/s", pairs, _GOAL, records=written, burst=size.burst)


def _count(side: Ours) -> int:
    query = "SELECT count(*) FROM manent.audit WHERE deploy IS NOT NULL"
    return int(side.rows.query(query)[0][0])


def _everything(folder: Path, port: int) -> dict[str, Any]:
    _openssl(folder, "genpkey", "-algorithm", "ed25519", "-out", "audit.pem")
    siem = {"format": "rfc5424", "address": f"tls://localhost:{port}"}
    siem["ca"] = str(folder / "cert.pem")
    file = str(folder / "audit.jsonl")
    return {"file": file, "key": str(folder / "audit.pem"), "sinks": {"siem": siem}}


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)  # noqa: S607 - whichever is there


class _Receiver:
    """Takes whatever is sent, and counts the messages.

    Attributes:
        heard: How many; each names its record's hash.
    """

    def __init__(self, folder: Path) -> None:
        self.heard = 0
        made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-x509"]
        named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        _openssl(folder, "req", *made, *named, "-keyout", "key.pem", "-out", "cert.pem")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Take no more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
                with self._context.wrap_socket(plain, server_side=True) as one:
                    while data := one.recv(65536):
                        self.heard += data.count(b'"action"')
            except ssl.SSLError:
                continue
            except OSError:
                return
