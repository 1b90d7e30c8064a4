"""A TCP proxy before Postgres that loses the answer of the next COMMIT."""

import contextlib
import socket
import threading


class Proxy:
    """Forwards every connection; `lose_next_commit` cuts one off after its COMMIT arrived."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._armed = threading.Event()
        self.lost = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_next_commit(self) -> None:
        self._armed.set()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            cut = threading.Event()
            for source, sink, is_client in ((client, server, True), (server, client, False)):
                threading.Thread(
                    target=self._pump, args=(source, sink, cut, is_client), daemon=True
                ).start()

    def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        cut: threading.Event,
        is_client: bool,  # noqa: FBT001 - one of two pumps
    ) -> None:
        try:
            while data := source.recv(65536):
                if is_client and b"COMMIT" in data and self._armed.is_set():
                    self._armed.clear()
                    cut.set()
                elif not is_client and cut.is_set():
                    self.lost += 1
                    break
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
