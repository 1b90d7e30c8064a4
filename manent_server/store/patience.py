"""How long this process waits for the answer to one statement.

The limits of session and socket cover a server that works and a network that drops packets. They
say nothing where something in between, a proxy perhaps, keeps a dead connection open and
acknowledges what it is sent: only whoever waits can tell that no answer comes.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import sqlalchemy as sa


def bound(engine: sa.Engine, limit: timedelta) -> None:
    """Let connections of a Postgres engine end with an error when an answer takes longer.

    The error is that of a lost connection.
    """
    sa.event.listen(engine, "do_connect", _connecting(limit.total_seconds()))


def give_up_after(engine: sa.Engine, limit: timedelta) -> None:
    """Give new connections of a bound engine another limit.

    An engine for SQLite has none, since its answers come from this process.
    """

    def shorten(connection: Any, _record: Any) -> None:
        connection.seconds = limit.total_seconds()

    if engine.dialect.name == "postgresql":
        # First: what else is done to a new connection asks the server something.
        sa.event.listen(engine, "connect", shorten, insert=True)


def _connecting(limit: float) -> Callable[..., Any]:
    # Whoever keeps to SQLite does without.
    import psycopg  # noqa: PLC0415 - as above

    from manent_server.store.cursor import PlainCursor  # noqa: PLC0415 - as above

    class Bounded(psycopg.Connection[Any]):
        """A connection that is closed once an answer is overdue."""

        seconds = limit

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.cursor_factory = PlainCursor

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            began = time.monotonic()
            try:
                return super().wait(gen, interval, self.seconds if timeout is None else timeout)
            except psycopg.OperationalError as error:
                is_late = timeout is None and time.monotonic() - began >= self.seconds
                if not is_late or error.sqlstate is not None:
                    raise
                # What it still waits for would be taken for the answer to the next statement.
                self.close()
                raise psycopg.OperationalError(f"no answer within {self.seconds:g} s") from error

    def connect(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> Any:
        return Bounded.connect(*arguments, **parameters)

    return connect
