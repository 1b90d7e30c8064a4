"""A cable between one process and the database that can be pulled, or filled with treacle."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any

_CHUNK = 65536
_LATE = 2.5
# `linger` on with no time: closing resets the connection.
_RESET = struct.pack("ii", 1, 0)


class Cables:
    """The thread in which all cables of a run live."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self.loop.run_forever, name="cables", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something there and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(10)

    def close(self) -> None:
        """End all."""
        self.call(self._cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)
        self.loop.close()

    async def _cancel_all(self) -> None:
        me = asyncio.current_task()
        for server in self.servers:
            server.close()
        while others := [task for task in asyncio.all_tasks() if task is not me]:
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=0.2)


class Cable:
    """One listener on an address of this machine before one port of it.

    `pass` lets everything through; `silent` holds everything back, also of new connections (a
    partition without an answer); `stalled` keeps the connections there are silent until the
    next `pass`, which resets them, and lets new ones through; `late` brings answers late, requests
    in time; `broken` resets every connection, old and new.
    """

    def __init__(self, cables: Cables, port: int, *, host: str = "127.0.0.1") -> None:
        self._host = host
        self._cables = cables
        self._up = port
        self._mode = "pass"
        self._epoch = 0
        self._flows = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._old: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any] | None] = set()
        self.port: int = cables.call(self._start())

    def set(self, mode: str) -> None:
        """Change what it does."""
        self._cables.call(self._set(mode))

    async def _start(self) -> int:
        self._flows.set()
        server = await asyncio.start_server(self._connected, self._host, 0)
        self._cables.servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _set(self, mode: str) -> None:
        self._mode = mode
        if mode == "silent":
            self._flows.clear()
            return
        if mode == "stalled":
            self._old |= self._writers
            self._epoch += 1
        self._flows.set()
        # Keepalives would end what is stalled; a proxy has to do it for them.
        for writer in list(self._writers if mode == "broken" else self._old):
            if mode != "stalled":
                _reset(writer)
                self._old.discard(writer)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "broken":
            _reset(writer)
            return
        self._writers.add(writer)
        # Nobody else holds a task that waits for ever.
        self._tasks.add(task := asyncio.current_task())
        flows = self._current()
        other: asyncio.StreamWriter | None = None
        try:
            await flows().wait()
            up, other = await asyncio.open_connection("127.0.0.1", self._up)
            self._writers.add(other)
            await asyncio.gather(
                self._pump(reader, other, flows), self._pump(up, writer, flows, answers=True),
                return_exceptions=True,
            )  # fmt: skip
        except (OSError, asyncio.CancelledError):
            return
        finally:
            self._tasks.discard(task)
            for each in (writer, other):
                if each is not None:
                    self._writers.discard(each)
                    _reset(each)

    def _current(self) -> Callable[[], asyncio.Event]:
        """What a connection waits for: its own for ever once it has been stalled."""
        epoch, never = self._epoch, asyncio.Event()
        return lambda: self._flows if epoch == self._epoch else never

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        flows: Callable[[], asyncio.Event],
        *,
        answers: bool = False,
    ) -> None:
        try:
            while data := await reader.read(_CHUNK):
                if answers and self._mode == "late":
                    await asyncio.sleep(_LATE)
                await flows().wait()
                writer.write(data)
                await writer.drain()
        finally:
            # However it ended: the other side must not wait for an answer for ever.
            with contextlib.suppress(OSError, RuntimeError):
                writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    found = writer.get_extra_info("socket")
    if found is not None and found.fileno() != -1:
        with contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
