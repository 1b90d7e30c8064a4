"""A listening HTTP server in a thread of its own."""

import asyncio
import errno
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from manent_server.api.wire import Wire
from manent_server.domain.errors import ConfigurationError, StartRefused

_START_SECONDS = 30.0
_TICK_SECONDS = 1.0


@dataclass(frozen=True)
class Front:
    """What stands between a listener and the network.

    Attributes:
        certificate: TLS certificate chain in PEM; none means plain HTTP.
        key: Its private key.
        trusted_proxies: Addresses and networks whose `X-Forwarded-*` headers are believed.
    """

    certificate: Path | None = None
    key: Path | None = None
    trusted_proxies: Sequence[str] = ()


class _Quiet(uvicorn.Server):
    """Wakes once a second, for the date in its answers, and when it is to end.

    The library's own looks ten times a second whether it is to end: an idle process would do little
    else.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._wake: Callable[[], object] = lambda: None

    async def main_loop(self) -> None:
        """Wait for the end; called by the library in its own loop."""
        asked, loop = asyncio.Event(), asyncio.get_running_loop()
        self._wake = lambda: loop.call_soon_threadsafe(asked.set)
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(asked.wait(), _TICK_SECONDS)

    def end(self) -> None:
        """Take no more requests; called by another thread."""
        self.should_exit = True
        with suppress(RuntimeError):  # it has ended by itself
            self._wake()


class Listener:
    """Serves one application on one address.

    The socket is bound when the listener is made, so a port of 0 is known before the first
    request and a taken one stops the start.

    Args:
        app: What is served.
        host: Where to listen.
        port: 0 for any free one.
        key: The key of manent.yml this address comes from, named in errors.
        front: TLS and proxies.

    Raises:
        StartRefused: The port is taken now.
        ConfigurationError: The address or the certificate cannot be used at all.
    """

    def __init__(
        self,
        app: FastAPI,
        host: str,
        port: int,
        *,
        key: str = "server.listen",
        front: Front | None = None,
    ) -> None:
        self._app = app
        self._key = key
        config = _config(app, front or Front())
        self._socket = _bind(host, port, key)
        self.host, self.port = self._socket.getsockname()[:2]
        self.url = f"{'https' if config.is_ssl else 'http'}://{_bracketed(self.host)}:{self.port}"
        self._config = config
        self._server = _Quiet(config)
        self._thread = threading.Thread(target=self._run, name=f"http {key}", daemon=True)

    def start(self) -> None:
        """Begin to answer; returns when it does."""
        self._thread.start()
        waited = threading.Event()
        for _ in range(int(_START_SECONDS / 0.01)):
            if self._server.started or not self._thread.is_alive():
                break
            waited.wait(0.01)
        if not self._server.started:
            raise StartRefused(f"{self._key}: the HTTP server did not start", next="see the log")

    def stop(self, timeout: timedelta) -> None:
        """Take no more requests, let those that run finish, close what is left at the end."""
        self._app.state.closing.set()
        self._config.timeout_graceful_shutdown = max(1, round(timeout.total_seconds()))
        self._server.end()
        if self._thread.is_alive():
            self._thread.join(timeout.total_seconds() + 1)
        if self._thread.is_alive():
            self._server.force_exit = True
            self._thread.join(1)
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def _config(app: FastAPI, front: Front) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=Wire,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(front.trusted_proxies),
        forwarded_allow_ips=list(front.trusted_proxies),
        ssl_certfile=front.certificate,
        ssl_keyfile=front.key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"server.tls: the certificate or its key cannot be used: {error.strerror}",
            next="give PEM files that this process can read and that belong together",
        ) from error
    return config


def _bind(host: str, port: int, key: str) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        where = f"{key}: {host}:{port}"
        if error.errno == errno.EADDRINUSE:
            raise StartRefused(
                f"{where} is taken by another process",
                code="address_taken",
                next=f"stop that process or set {key} to another port",
            ) from error
        raise ConfigurationError(
            f"{where} cannot be listened on: {error.strerror}",
            next=f"set {key} to an address of this machine",
        ) from error
    # Connections inherit it. The head of an answer and its body are two writes: without it a client
    # that keeps its connection open waits 40 ms for each body.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
