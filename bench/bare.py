"""The other side: the engine alone, in the same layout - one process that accepts and works.

`python -m bench.bare URL PORT POLLING_SECONDS CONCURRENCY POOL MARKS`. POST /runs/<id> enqueues a
workflow of five empty steps and answers 202; GET / answers once it works.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, SetWorkflowID

from bench.plugin.bench_mark import mark

QUEUE = "bare"
_STEPS = 5


def main(arguments: list[str]) -> None:
    """Serve until killed."""
    url, port, polling, concurrency, pool, marks = arguments
    engine = sa.create_engine(url, pool_size=int(pool), max_overflow=0, pool_pre_ping=True)
    config: DBOSConfig = {
        "name": "bare",
        "system_database_engine": engine,
        "executor_id": "bare",
        "application_version": "1",
        "use_listen_notify": False,
        "enable_otlp": False,
        "log_level": "WARNING",
    }
    DBOS(config=config)
    Handler.start = _workflow(marks)
    DBOS.listen_queues([QUEUE])
    DBOS.launch()
    DBOS.register_queue(
        QUEUE,
        worker_concurrency=int(concurrency),
        polling_interval_sec=float(polling),
        on_conflict="always_update",
    )
    Server(("127.0.0.1", int(port)), Handler).serve_forever()


def _workflow(marks: str) -> Any:
    @DBOS.step(name="step")
    def step(run: str, number: int) -> None:
        for event in ("begin", "end"):
            mark(marks, run=f"{run}/1", place=run, step=f"step:{number}", attempt=1, event=event)

    @DBOS.workflow(name="run", max_recovery_attempts=None)
    def run(name: str) -> None:
        for number in range(_STEPS):
            step(name, number)

    return run


class Server(ThreadingHTTPServer):
    """One thread a connection."""

    daemon_threads = True
    request_queue_size = 64


class Handler(BaseHTTPRequestHandler):
    """Accepts runs."""

    protocol_version = "HTTP/1.1"
    start: ClassVar[Any] = None

    def do_GET(self) -> None:
        """Say that it works."""
        self._answer(200)

    def do_POST(self) -> None:
        """Enqueue a run."""
        name = self.path.rpartition("/")[2]
        with SetWorkflowID(name):
            DBOS.enqueue_workflow(QUEUE, Handler.start, name)
        self._answer(202)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    main(sys.argv[1:])
