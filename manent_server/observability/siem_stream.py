"""A receiver of the record behind TLS.

The protocols have no answer: a receiver counts as having what its machine has confirmed and what
the connection has outlived by a moment. What it has not is sent again on the next connection.
"""

import fcntl
import socket
import ssl
import struct
import termios
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from manent_server.domain.audit import Entry

_CONNECT: Final = 5.0
_SEND: Final = 10.0
_OUTLIVED: Final = 1.0
_LONGEST_UNCONFIRMED: Final = 30.0


@dataclass(frozen=True)
class Trust:
    """Whom to trust, and what to show."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """How connections are made: TLS 1.2 at least, certificates and names checked.

        Raises:
            OSError: One of the files cannot be used.
        """
        context = ssl.create_default_context(cafile=self.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


class SiemStream:
    """Sends each record as one frame.

    Args:
        address: Host and port.
        trust: How the receiver is known.
        render: A record as its frame.
        clock: Seconds, never set back.
    """

    def __init__(
        self,
        address: tuple[str, int],
        trust: Trust,
        render: Callable[[Entry], bytes],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._trust = trust
        self._render = render
        self._clock = clock
        self._socket: ssl.SSLSocket | None = None
        self._sent: deque[tuple[int, float]] = deque()
        self._confirmed = 0

    def give(self, entries: Sequence[Entry]) -> None:
        """Send them.

        Raises:
            OSError: It cannot be reached, is somebody else, or takes nothing.
        """
        connection = self._connected()
        self._demand_open(connection)
        connection.settimeout(_SEND)
        connection.sendall(b"".join(self._render(entry) for entry in entries))
        self._sent.append((entries[-1].number, self._clock()))

    def confirmed(self) -> int:
        """What its machine has, and the connection has outlived.

        Raises:
            OSError: The connection has ended, or nothing was confirmed for too long.
        """
        if self._socket is None or not self._sent:
            return self._confirmed
        self._demand_open(self._socket)
        at = self._clock()
        if _unconfirmed(self._socket) > 0:
            if at - self._sent[0][1] > _LONGEST_UNCONFIRMED:
                raise TimeoutError("the receiver takes nothing")
            return self._confirmed
        while self._sent and at - self._sent[0][1] >= _OUTLIVED:
            self._confirmed = self._sent.popleft()[0]
        return self._confirmed

    def close(self) -> None:
        """Forget the connection and what was sent over it."""
        connection, self._socket = self._socket, None
        self._sent.clear()
        self._confirmed = 0
        if connection is not None:
            connection.close()

    def _connected(self) -> ssl.SSLSocket:
        if self._socket is None:
            context = self._trust.context()
            plain = socket.create_connection(self._address, timeout=_CONNECT)
            try:
                self._socket = context.wrap_socket(plain, server_hostname=self._address[0])
            except BaseException:
                plain.close()
                raise
        return self._socket

    def _demand_open(self, connection: ssl.SSLSocket) -> None:
        """A receiver says nothing; the end of its side is all there is to read."""
        connection.settimeout(0)
        try:
            if not connection.recv(4096):
                raise ConnectionResetError("the receiver closed the connection")
        except (ssl.SSLWantReadError, BlockingIOError):
            return


def _unconfirmed(connection: socket.socket) -> int:
    """Bytes the other machine has not confirmed yet."""
    answer = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0" * 4)
    return int(struct.unpack("i", answer)[0])
