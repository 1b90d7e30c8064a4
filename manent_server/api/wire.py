"""Where bytes become requests: what is no HTTP, and heads that never end."""

import asyncio
from typing import Final

from h11 import Data, EndOfMessage, Response
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from manent_server.api.envelope import HEADERS

HEAD_SECONDS: Final = 30.0
"""How long address and headers of a request may take to arrive."""


class Wire(H11Protocol):
    """The library's protocol, with our headers on its own answer and an end to waiting.

    A connection costs memory for as long as it is open: one on which no request arrives whole is
    closed, however slowly its bytes come.
    """

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(
        self,
        transport: asyncio.Transport,  # type: ignore[override]  # - as narrow as theirs
    ) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """A part of a request; while it is answered nobody is waited for."""
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused like anything else, and says as little of us."""
        head = Response(
            status_code=400,
            headers=[
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"connection", b"close"),
                *HEADERS,
            ],
        )
        for event in (head, Data(data=msg.encode("ascii")), EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _wait(self) -> None:
        if self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if not self._is_answering():
            self.transport.close()

    def _is_answering(self) -> bool:
        # Its type is not said truly: there is none before the first request.
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete
