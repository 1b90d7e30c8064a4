"""Writes a run's history: what clients and nemesis did, what transactions and hooks left."""

import base64
import json
import threading
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from tests.chaos.history import Call, Change, Fault, History, Line, Mark

# What a row says of state; never the large columns.
_LEFT_OUT = ("order_body", "prepared", "links", "changes", "warnings", "log_next", "log_bytes",
             "log_dropped", "order_digest", "outputs", "checkpoint", "progress", "lock_file",
             "heartbeat_at", "running")  # fmt: skip
_WATCHED: dict[str, tuple[str, ...]] = {
    "deploys": ("state", "phase", "outcome", "epoch", "executor", "incarnation", "dispatch",
                "ticket", "cancel_requested_at", "pass_number", "blocked", "ended_at",
                "approval", "approval_digest", "handed_out_at"),
    "steps": ("state", "ended_at", "failures"),
    "attempts": ("ended_at", "result"),
    "slots": ("deploy",),
    "executors": ("incarnation", "recovered_by", "stopped_at", "draining"),
    "leases": ("holder", "token"),
    "inventory": ("version", "state", "deploy"),
    "schedules": ("deleted_at",),
    "approvals": ("state", "digest"),
    "votes": ("approval", "identity", "decision", "comment", "digest"),
    "schedule_runs": ("result", "deploy"),
}  # fmt: skip
_CHAINED_WITHIN = 20.0
_UNCHAINED = "SELECT count(*) FROM manent.audit_waiting"
_CHAIN = (
    "SELECT c.number, c.hash, a.record AS text FROM manent.audit_chain c "
    "JOIN manent.audit a ON a.entry = c.entry ORDER BY c.number"
)
_MARK = tuple(Mark.__dataclass_fields__)


def now() -> float:
    """Seconds since boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def offset() -> float:
    """What to take from the wall clock to get seconds since boot."""
    return time.time() - now()


class Unreachable(Exception):
    """The database cannot be asked now."""


class Recorder:
    """Collects the parts of one history; its methods may be called from any thread."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.history = History(settings=settings)
        self._folder = folder
        self._lock = threading.Lock()
        self._url = ""
        self._calls = 0

    # What happens

    def number(self) -> int:
        """The number of the next call."""
        with self._lock:
            self._calls += 1
            return self._calls

    def call(self, call: Call) -> None:
        """A client's call with its answer."""
        with self._lock:
            self.history.calls.append(call)

    def fault(self, fault: Fault) -> Fault:
        """A fault as it begins."""
        with self._lock:
            self.history.faults.append(fault)
        return fault

    def healed(self, fault: Fault) -> None:
        """The same fault as it ends."""
        with self._lock:
            place = self.history.faults.index(fault)
            self.history.faults[place] = replace(fault, until=now())

    def exit(self, name: str, code: int, said: str) -> None:
        """A process's end."""
        with self._lock:
            self.history.exits.append({"name": name, "code": code, "said": said, "at": now()})

    def lines(self, deploy: str, items: Iterable[dict[str, Any]], *, is_final: bool) -> None:
        """Lines somebody read."""
        found = [
            Line(deploy, item["sequence"], item["step"], item["attempt"], item["stream"],
                 item["text"], is_final)
            for item in items
        ]  # fmt: skip
        with self._lock:
            self.history.lines.extend(found)

    # The database's own record

    def install(self, url: str) -> None:
        """Triggers that note each change of a row, in the transaction that makes it."""
        self._url = url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_JOURNAL)
            for table, columns in _WATCHED.items():
                for statement in _triggers(table, columns):
                    connection.execute(statement)

    def takeovers(self) -> int:
        """How many incarnations were claimed so far."""
        try:
            with psycopg.connect(self._url) as connection:
                row = connection.execute(_CLAIMS).fetchone()
        except psycopg.Error as error:
            raise Unreachable from error
        return int(row[0]) if row else 0

    def collect(self, *, deploys: list[dict[str, Any]], inventory: list[dict[str, Any]]) -> History:
        """Everything, once the run is over."""
        self.history.deploys = deploys
        self.history.inventory = inventory
        self.history.ledger = tail(self._folder / "ledger.jsonl", 0)[0]
        with psycopg.connect(self._url, row_factory=dict_row) as connection:
            rows = connection.execute(_READ, {"offset": offset()}).fetchall()
        self.history.changes = [_change(row) for row in rows]
        self._collect_audit()
        return self.history

    def _collect_audit(self) -> None:
        """The chain, once everything that was committed had the time to get its number."""
        with psycopg.connect(self._url, row_factory=dict_row, autocommit=True) as connection:
            end = now() + _CHAINED_WITHIN
            while (left := connection.execute(_UNCHAINED).fetchone()) and now() < end:
                if not left["count"]:
                    break
                time.sleep(0.2)
            self.history.settings["unchained"] = left["count"] if left else 0
            self.history.records = connection.execute(_CHAIN).fetchall()


def _change(row: dict[str, Any]) -> Change:
    return Change(row["n"], row["at"], row["what"], row["op"] == "DELETE", row["row"])


def tail(path: Path, start: int) -> tuple[list[Mark], int]:
    """The ledger's whole lines from an offset on, and the offset behind them."""
    if not path.exists():
        return [], start
    with path.open("rb") as file:
        file.seek(start)
        whole, newline, _ = file.read().rpartition(b"\n")
    found = [json.loads(text) for text in whole.splitlines()]
    made = [Mark(**{name: line.get(name) for name in _MARK}) for line in found]
    return made, start + len(whole) + len(newline)


def leaks(secret: str, url: str, files: Iterable[Path], sent: Iterable[str]) -> list[str]:
    """Where the secret stands: in the database, in files, in what was sent."""
    needles = [needle.encode() for needle in _forms(secret)]
    found = [
        f"{file}: the secret stands in it"
        for file in files
        if file.is_file() and any(needle in file.read_bytes() for needle in needles)
    ]
    found += [
        f"sent: {text[:200]}" for text in sent if any(needle in text.encode() for needle in needles)
    ]
    return found + [f"table {table}" for table in _tables_with(needles, url)]


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield urllib.parse.quote(secret, safe="")
    for start in range(3):
        yield base64.b64encode(b"\0" * start + secret.encode()).decode()[start + 1 : -4]


def _tables_with(needles: list[bytes], url: str) -> Iterator[str]:
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_type = 'BASE TABLE' AND table_schema NOT IN"
            " ('pg_catalog', 'information_schema')"
        ).fetchall()
        for schema, table in tables:
            copy = sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(schema, table))
            with connection.cursor().copy(copy) as rows:
                data = b"".join(bytes(block) for block in rows)
            # COPY writes a backslash twice; the secret has none.
            if any(needle in data for needle in needles):
                yield f"{schema}.{table}"


def _triggers(table: str, columns: tuple[str, ...]) -> Iterator[sql.Composed]:
    where = sql.Identifier("manent", table)
    news = sql.SQL(", ").join(sql.SQL("NEW.{}").format(sql.Identifier(name)) for name in columns)
    olds = sql.SQL(", ").join(sql.SQL("OLD.{}").format(sql.Identifier(name)) for name in columns)
    yield sql.SQL(
        "CREATE TRIGGER chaos_row AFTER INSERT OR DELETE ON {}"
        " FOR EACH ROW EXECUTE FUNCTION chaos.note()"
    ).format(where)
    yield sql.SQL(
        "CREATE TRIGGER chaos_change AFTER UPDATE ON {} FOR EACH ROW"
        " WHEN (ROW({}) IS DISTINCT FROM ROW({})) EXECUTE FUNCTION chaos.note()"
    ).format(where, news, olds)


_JOURNAL = sql.SQL(
    """
    CREATE SCHEMA chaos;
    CREATE TABLE chaos.changes (
        n bigserial PRIMARY KEY, at timestamptz NOT NULL, what text NOT NULL, op text NOT NULL,
        row jsonb NOT NULL, before jsonb
    );
    CREATE FUNCTION chaos.note() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE found jsonb; before jsonb;
    BEGIN
        found := to_jsonb(CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END) - {left_out}::text[];
        IF TG_TABLE_NAME = 'leases' AND TG_OP = 'UPDATE' THEN
            before := jsonb_build_object('old_holder', OLD.holder, 'old_token', OLD.token,
                                         'old_until', extract(epoch FROM OLD.until));
        END IF;
        INSERT INTO chaos.changes (at, what, op, row, before)
            VALUES (clock_timestamp(), TG_TABLE_NAME, TG_OP, found, before);
        RETURN NULL;
    END $$;
    """
).format(left_out=sql.Literal(list(_LEFT_OUT)))
_CLAIMS = (
    "SELECT count(DISTINCT row->>'incarnation') FROM chaos.changes"
    " WHERE what = 'executors' AND row->>'recovered_by' IS NOT NULL"
)
_READ = """
    SELECT n, extract(epoch FROM at)::float8 - %(offset)s AS at, what, op,
        row || CASE WHEN before IS NULL THEN '{}'::jsonb ELSE before || jsonb_build_object(
            'old_until', (before->>'old_until')::float8 - %(offset)s) END AS row
    FROM chaos.changes ORDER BY n
"""
