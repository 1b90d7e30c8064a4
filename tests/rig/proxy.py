"""A TCP proxy before a server: it cuts off, holds back, hangs, or loses the answer of a COMMIT.

Give one worker the proxy's address and it alone can be parted from its database.
"""

import contextlib
import socket
import threading
import time
from dataclasses import dataclass

import sqlalchemy as sa

_CHUNK = 65536


class Proxy:
    """Forwards every connection to a port of this host, until told otherwise.

    Args:
        target: The server's port.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._is_armed = threading.Event()
        self._looked_for = b""
        self._flows = threading.Event()
        self._flows.set()
        self._is_refusing = False
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._hung: set[threading.Event] = set()
        self.lost = 0
        self.delay = 0.0
        """Seconds every answer is held back."""
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def url(self, database_url: str) -> str:
        """The same database, reached through here."""
        url = sa.make_url(database_url).set(host="127.0.0.1", port=self.port)
        return url.render_as_string(hide_password=False)

    def lose_next_commit(self) -> None:
        """Cut one connection off after its COMMIT has arrived; `lost` counts them."""
        self.lose_next_answer(b"COMMIT")

    def lose_next_answer(self, to: bytes) -> None:
        """Cut one connection off after something with these bytes in it has arrived."""
        self._looked_for = to
        self._is_armed.set()

    def stall(self) -> None:
        """Hold everything back, as a network that drops every packet; new connections hang.

        What was sent meanwhile arrives after `restore`, unless its sender has given up.
        """
        self._flows.clear()

    def hang(self) -> None:
        """Keep the connections there are, take what is sent and pass nothing on any more.

        As a proxy does whose way to the server is gone; new connections find another.
        """
        with self._lock:
            for is_hung in self._hung:
                is_hung.set()

    def cut(self) -> None:
        """End every connection and take no new one, as a host that is unreachable by its rules."""
        self._is_refusing = True
        with self._lock:
            ends = list(self._ends)
        for end in ends:
            _shut(end)
        self._flows.set()

    def restore(self) -> None:
        """Forward again."""
        self._is_refusing = False
        self._flows.set()

    def connections(self) -> int:
        """How many connections are forwarded now."""
        with self._lock:
            return len(self._ends) // 2

    def close(self) -> None:
        """End everything."""
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _refuses(self) -> bool:
        return self._is_refusing

    def _forward(self, client: socket.socket) -> None:
        self._flows.wait()
        if self._refuses():
            client.close()
            return
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:  # the server is down: its clients see that the connection ends
            client.close()
            return
        line = _Line(threading.Event(), threading.Event())
        with self._lock:
            self._ends |= {client, server}
            self._hung.add(line.is_hung)
        if self._refuses():  # cut while it was being made
            _shut(client)
            _shut(server)
        to_server = threading.Thread(
            target=self._pump, args=(client, server, line), kwargs={"watches": True}, daemon=True
        )
        to_server.start()
        self._pump(server, client, line, watches=False)
        to_server.join()
        with self._lock:
            self._ends -= {client, server}
            self._hung.discard(line.is_hung)
        client.close()
        server.close()

    def _pump(
        self, source: socket.socket, sink: socket.socket, line: "_Line", *, watches: bool
    ) -> None:
        """Pass one direction on; the one that `watches` looks for what is to get no answer."""
        try:
            while data := source.recv(_CHUNK):
                self._flows.wait()
                if line.is_hung.is_set():
                    continue
                if watches and self._is_armed.is_set() and self._looked_for in data:
                    self._is_armed.clear()
                    line.is_cut.set()
                elif not watches and line.is_cut.is_set():
                    self.lost += 1
                    break
                if not watches and self.delay:
                    time.sleep(self.delay)
                sink.sendall(data)
        except OSError:
            pass
        finally:
            _shut(source)
            _shut(sink)


@dataclass(frozen=True)
class _Line:
    """What has come over a connection, known to both of its directions."""

    is_cut: threading.Event
    is_hung: threading.Event


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
