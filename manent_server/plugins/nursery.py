"""The zygote as the worker sees it: started by exec, started anew when it dies, kept warm."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import manent_server
from manent_server.plugins import protocol
from manent_server.plugins.leash import Leash

_READY_SECONDS: Final = 60.0
_SEND_SECONDS: Final = 5.0
_END_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.5
_REFILL_SECONDS: Final = 0.01
_MESSAGE: Final = 65536


class NoGuard(Exception):
    """No guard is to be had now; nothing was begun."""


class Nursery:
    """Guards on demand.

    Args:
        python: The interpreter.
        warm: How many guards wait, forked already.
        environment: All that hooks find in their environment.
        on_death: Told when a zygote ended that should not have.
    """

    def __init__(
        self,
        python: str,
        *,
        warm: int,
        environment: Mapping[str, str],
        on_death: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._python = python
        self._warm = warm
        self._environment = dict(environment)
        self._on_death = on_death
        self._lock = threading.RLock()
        self._is_renewed = threading.Condition(self._lock)
        self._generation = 0
        self._waiting: deque[Leash] = deque()
        self._process: subprocess.Popen[bytes] | None = None
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.close()
        self._is_closing = threading.Event()
        self._is_taken_from = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, name="zygote-watch", daemon=True),
            threading.Thread(target=self._refill, name="guard-refill", daemon=True),
        ]

    @property
    def pid(self) -> int | None:
        """Process id of the zygote."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the zygote and warm guards.

        Raises:
            NoGuard: The zygote did not come up.
        """
        self._start_zygote()
        self.warm_up()
        for thread in self._threads:
            thread.start()

    def take(self) -> Leash:
        """A guard waiting for its call.

        Raises:
            NoGuard: There is none and none could be made.
        """
        self._is_taken_from.set()
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
        for _ in range(2):
            if self._is_closing.is_set():
                break
            generation = self._generation
            with contextlib.suppress(OSError):
                return self._fork()
            self._await_another(generation)
        raise NoGuard("no guard process could be started")

    def warm_up(self) -> None:
        """Fork guards until enough are waiting."""
        with self._lock, contextlib.suppress(OSError):
            while len(self._waiting) < self._warm and not self._is_closing.is_set():
                self._waiting.append(self._fork())

    def close(self) -> None:
        """End the zygote and its waiting guards; running ones end with their leashes."""
        self._is_closing.set()
        with self._is_renewed:
            self._is_renewed.notify_all()
            while self._waiting:
                self._waiting.popleft().close()
            self._control.close()
        if self._process is None:
            return
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._is_taken_from.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _await_another(self, generation: int) -> None:
        with self._is_renewed:
            self._is_renewed.wait_for(
                lambda: self._generation != generation or self._is_closing.is_set(),
                _READY_SECONDS,
            )

    def _start_zygote(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # Nothing of the worker's environment or descriptors may reach a hook.
            self._process = subprocess.Popen(
                [self._python, "-P", "-m", "manent_server.plugins.zygote", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**self._environment, "PYTHONPATH": _home()},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        try:
            self._introduce(self._control)
        except NoGuard:
            self._control.close()
            self._process.kill()
            self._process.wait()
            raise
        with self._is_renewed:
            self._generation += 1
            self._is_renewed.notify_all()

    def _introduce(self, control: socket.socket) -> None:
        control.settimeout(_READY_SECONDS)
        path = [str(Path(entry).absolute()) for entry in sys.path]
        try:
            control.send(protocol.encode({"type": "configuration", "path": path}))
            answer = control.recv(_MESSAGE)
        except OSError as error:
            raise NoGuard(f"the zygote did not answer: {error}") from error
        if not answer:
            raise NoGuard("the zygote ended while it started; its stderr says why")
        control.settimeout(_SEND_SECONDS)

    def _fork(self) -> Leash:
        their_reader, writer = os.pipe()
        reader, their_writer = os.pipe()
        try:
            with self._lock:
                socket.send_fds(self._control, [b"guard"], [their_reader, their_writer])
        except OSError:
            os.close(writer)
            os.close(reader)
            raise
        finally:
            os.close(their_reader)
            os.close(their_writer)
        return Leash(writer, reader)

    def _watch(self) -> None:
        """Whenever the zygote dies, start another; guards that run go on without it."""
        while self._process is not None:
            code = self._process.wait()
            if self._is_closing.is_set():
                return
            self._on_death(code)
            self._restart()

    def _refill(self) -> None:
        """Warm up in the pause after a call has begun, not while it wants the processors."""
        while not self._is_closing.is_set():
            self._is_taken_from.wait()
            self._is_taken_from.clear()
            if not self._is_closing.wait(_REFILL_SECONDS):
                self.warm_up()

    def _restart(self) -> None:
        while not self._is_closing.is_set():
            with self._lock:
                self._control.close()
                with contextlib.suppress(NoGuard, OSError):
                    self._start_zygote()
                    self.warm_up()
                    return
            self._is_closing.wait(_PAUSE_SECONDS)


def _home() -> str:
    """Where this package was imported from, so that the zygote imports the very same one."""
    return str(Path(manent_server.__path__[0]).parent)
