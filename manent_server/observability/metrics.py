"""The metrics of one process, in a registry of their own, and the list of them for the manual.

No label ever holds the name of a person, a version, a deploy id or anything a caller wrote.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from manent_server.domain import tally
from manent_server.domain.census import Census
from manent_server.observability.audit_metrics import AUDIT, Audit, AuditStanding
from manent_server.observability.census_metrics import CENSUS, Installation
from manent_server.observability.metric import Metric, gauge
from manent_server.observability.process_metrics import OF_THE_PROCESS, OfTheProcess

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_log = logging.getLogger("manent.metrics")
_METHODS = frozenset({"GET", "POST", "DELETE"})
_REFUSED = "refused"
_UNMATCHED = "unmatched"
_HOOK_SECONDS = (0.1, 1, 10, 60, 600, 3600)
_REFUSALS = frozenset({*range(400, 500), 503})
_HTTP_SECONDS = (0.01, 0.05, 0.25, 1, 5)


@dataclass(frozen=True)
class ExecutorBeat:
    """What the metrics say of one row of the executor registry."""

    executor: str
    is_up: bool
    heartbeat_at: datetime | None


@dataclass(frozen=True)
class SinkStanding:
    """What the metrics say of one configured sink."""

    sink: str
    lag_seconds: float
    dead: int


EXECUTOR_UP = Metric(
    "manent_executor_up",
    "gauge",
    ("executor",),
    "1 while the executor is alive, 0 when it is lost or stopped.",
)
EXECUTOR_HEARTBEAT = Metric(
    "manent_executor_heartbeat_timestamp_seconds",
    "gauge",
    ("executor",),
    "Unix time of the executor's last heartbeat, by the database's clock.",
)
DATABASE_UP = Metric(
    "manent_database_up", "gauge", (), "1 if the database answered in time, just now, else 0."
)
STALE_WRITES = Metric(
    "manent_stale_writes_total",
    "counter",
    (),
    "Writes dropped because their deploy had a newer epoch.",
)
HOOK_SECONDS = Metric(
    "manent_hook_seconds",
    "histogram",
    ("plugin", "hook"),
    "Duration of hook calls of this process.",
)
HTTP_REQUESTS = Metric(
    "manent_http_requests_total",
    "counter",
    ("method", "route", "status"),
    "Requests answered; refused ones (4xx, 503) count by status, not by route.",
)
HTTP_SECONDS = Metric(
    "manent_http_request_seconds",
    "histogram",
    ("method",),
    "Duration of requests; a followed log counts until its end.",
)
LOG_LINES_DROPPED = Metric(
    "manent_log_lines_dropped_total",
    "counter",
    (),
    "Lines of deploy logs left out because a limit was reached.",
)
ENGINE_REPAIRS = Metric(
    "manent_engine_repairs_total",
    "counter",
    ("reason",),
    "Deploys the reconciler dispatched anew.",
)
TAKEOVERS = Metric(
    "manent_takeovers_total",
    "counter",
    ("kind",),
    "Lost executors this process took over from, by kind: automatic or manual.",
)
TAKEN_OVER = Metric(
    "manent_taken_over_deploys_total",
    "counter",
    ("kind",),
    "Deploys this process put back from lost executors.",
)
RELOAD_FAILED = Metric(
    "manent_reload_failed_total",
    "counter",
    (),
    "Reloads of manent.yml that changed nothing because the file had errors.",
)
OUTBOX_LAG = Metric(
    "manent_outbox_lag_seconds",
    "gauge",
    ("sink",),
    "Age of the oldest event a sink waits to be told of, by the database's clock.",
)
NOTICES_DEAD = Metric(
    "manent_notices_dead",
    "gauge",
    ("sink",),
    "Events a sink was not told of and will not be, unless somebody resends them.",
)
NOTICES = Metric(
    "manent_notices_total",
    "counter",
    ("sink", "result"),
    "Tries to tell a sink of an event; waiting means that it failed and is tried again.",
)
DEPLOY_EVENT_FAILED = Metric(
    "manent_deploy_event_failed_total",
    "counter",
    ("plugin",),
    "Calls of the hook deploy_event that raised.",
)
CHAT_REQUESTS = Metric(
    "manent_chat_requests_total",
    "counter",
    ("chat", "result"),
    "Requests of chats: heard, approve, reject, unmapped, refused, or why one was not believed.",
)
CHAT_CLOCK = Metric(
    "manent_chat_clock_difference_seconds",
    "gauge",
    ("chat",),
    "By how much the clock of a chat was behind ours at its last well signed request.",
)
LISTED = (
    *AUDIT,
    *CENSUS,
    *OF_THE_PROCESS,
    CHAT_REQUESTS,
    CHAT_CLOCK,
    OUTBOX_LAG,
    NOTICES_DEAD,
    NOTICES,
    DEPLOY_EVENT_FAILED,
    EXECUTOR_UP,
    EXECUTOR_HEARTBEAT,
    DATABASE_UP,
    STALE_WRITES,
    HOOK_SECONDS,
    HTTP_REQUESTS,
    HTTP_SECONDS,
    LOG_LINES_DROPPED,
    ENGINE_REPAIRS,
    TAKEOVERS,
    TAKEN_OVER,
    RELOAD_FAILED,
)


class Metrics:
    """Everything one process counts."""

    def __init__(self) -> None:
        # A series more for each counter and histogram, which nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._stale_writes = self._counter(STALE_WRITES)
        self._hook_seconds = self._histogram(HOOK_SECONDS, _HOOK_SECONDS)
        self._http_requests = self._counter(HTTP_REQUESTS)
        self._http_seconds = self._histogram(HTTP_SECONDS, _HTTP_SECONDS)
        self._log_lines_dropped = self._counter(LOG_LINES_DROPPED)
        self._engine_repairs = self._counter(ENGINE_REPAIRS)
        self._takeovers = self._counter(TAKEOVERS)
        self._taken_over = self._counter(TAKEN_OVER)
        self._reload_failed = self._counter(RELOAD_FAILED)
        self._notices = self._counter(NOTICES)
        self._chat_requests = self._counter(CHAT_REQUESTS)
        self._chat_clock = Gauge(
            CHAT_CLOCK.name, CHAT_CLOCK.help, CHAT_CLOCK.labels, registry=self.registry
        )
        self._deploy_event_failed = self._counter(DEPLOY_EVENT_FAILED)
        self.of_the_process = OfTheProcess(self.registry)

    def watch_executors(self, read: Callable[[], Iterable[ExecutorBeat]]) -> None:
        """Show the executor registry: `read` asks the database at every scrape."""
        self.registry.register(_Executors(read))

    def watch_sinks(self, read: Callable[[], Iterable[SinkStanding]]) -> None:
        """Show the sinks: `read` asks the database at every scrape."""
        self.registry.register(_Sinks(read))

    def watch_audit(self, read: Callable[[], tuple[float, Iterable[AuditStanding]]]) -> None:
        """Show the audit: `read` asks the database at every scrape."""
        self.registry.register(Audit(read))

    def watch_installation(self, read: Callable[[], Census]) -> None:
        """Show what the database adds up to: `read` asks it at every scrape."""
        self.registry.register(Installation(read))

    def notice(self, sink: str, result: str) -> None:
        """Count a try to tell a sink."""
        self._notices.labels(sink, result).inc()

    def chat_request(self, chat: str, result: str) -> None:
        """Count a request of a chat, or what it came to; `chat` is a configured name."""
        self._chat_requests.labels(chat, result).inc()

    def chat_clock(self, chat: str, difference: timedelta) -> None:
        """Show how far a chat's clock is behind ours."""
        self._chat_clock.labels(chat).set(difference.total_seconds())

    def deploy_event_failed(self, plugin: str) -> None:
        """Count a call of a plugin's `deploy_event` that raised."""
        self._deploy_event_failed.labels(plugin).inc()

    def stale_write(self, count: int = 1) -> None:
        """Count writes dropped because of a newer epoch."""
        self._stale_writes.inc(count)

    def hook(self, plugin: str, hook: str, *, seconds: float) -> None:
        """Record a hook call."""
        self._hook_seconds.labels(plugin, hook).observe(seconds)

    def http_request(self, method: str, route: str, status: int, *, seconds: float) -> None:
        """Record a request answered; `route` is the pattern, never the path.

        What a caller did wrong, or the database, says nothing of a route: each route by each way
        to be refused would be more series than everything else together.
        """
        known = method if method in _METHODS else "other"
        is_refused = status in _REFUSALS and route != _UNMATCHED
        self._http_requests.labels(known, _REFUSED if is_refused else route, str(status)).inc()
        self._http_seconds.labels(known).observe(seconds)

    def log_lines_dropped(self, count: int) -> None:
        """Count log lines left out."""
        self._log_lines_dropped.inc(count)

    def engine_repair(self, reason: str) -> None:
        """Count a deploy dispatched anew by the reconciler."""
        self._engine_repairs.labels(reason).inc()

    def takeover(self, kind: str, *, deploys: int) -> None:
        """Count a lost executor taken over from, and the deploys put back."""
        self._takeovers.labels(kind).inc()
        self._taken_over.labels(kind).inc(deploys)

    def reload_failed(self) -> None:
        """Count a reload that changed nothing."""
        self._reload_failed.inc()

    def render(self) -> bytes:
        """The text a scraper reads."""
        return generate_latest(self.registry)

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self.registry)

    def _histogram(self, metric: Metric, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(
            metric.name, metric.help, metric.labels, buckets=buckets, registry=self.registry
        )


class _Executors(Collector):
    """The executor registry, read at every scrape; an outage shows as such and as no rows."""

    def __init__(self, read: Callable[[], Iterable[ExecutorBeat]]) -> None:
        self._read = read

    def describe(self) -> list[GaugeMetricFamily]:
        """The families, without asking the database."""
        return [gauge(EXECUTOR_UP), gauge(EXECUTOR_HEARTBEAT), gauge(DATABASE_UP)]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families with what the database says now."""
        up, heartbeat, database = self.describe()
        try:
            beats = list(self._read())
        except Exception as error:  # noqa: BLE001 - a scrape tells of an outage, it never fails
            _log.warning("the executor registry cannot be read: %s", type(error).__name__)
            database.add_metric([], 0)
        else:
            database.add_metric([], 1)
            for beat in beats:
                up.add_metric([beat.executor], int(beat.is_up))
                if beat.heartbeat_at is not None:
                    heartbeat.add_metric([beat.executor], beat.heartbeat_at.timestamp())
        yield from (up, heartbeat, database)


class _Sinks(Collector):
    """The configured sinks, read at every scrape; nothing while the database does not answer."""

    def __init__(self, read: Callable[[], Iterable[SinkStanding]]) -> None:
        self._read = read

    def describe(self) -> list[GaugeMetricFamily]:
        """The families, without asking the database."""
        return [gauge(OUTBOX_LAG), gauge(NOTICES_DEAD)]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families with what the database says now."""
        lag, dead = self.describe()
        try:
            for standing in self._read():
                lag.add_metric([standing.sink], standing.lag_seconds)
                dead.add_metric([standing.sink], standing.dead)
        except Exception as error:  # noqa: BLE001 - a scrape tells of an outage, it never fails
            _log.warning("the outbox cannot be read: %s", type(error).__name__)
        yield from (lag, dead)


def render_reference() -> str:
    """The page that lists every metric, as Markdown."""
    rows = [
        f"| `{metric.name}` | {metric.kind} | "
        f"{', '.join(f'`{label}`' for label in metric.labels) or '-'} | {metric.help} |"
        for metric in sorted(LISTED, key=lambda metric: metric.name)
    ]
    return "\n".join(
        [
            "# Metrics",
            "",
            "Every process serves `/metrics` on `server.metrics_listen`. Where the meaning says "
            "*all*, the value comes from the database and is the same in every process: show one "
            "of them, such as `max by (...)`. Every other one is about the process that serves it: "
            f"add those up. At most {tally.MOST_ENVIRONMENTS} environments are counted by name, "
            "the rest as `other`. No label holds the name of a person, an application, a version "
            "or a deploy. "
            "[Watch manent](../how-to/watch-manent.md) says what to look at.",
            "",
            "| Name | Kind | Labels | Meaning |",
            "|---|---|---|---|",
            *rows,
            "",
            "The usual `process_*` and `python_info` metrics are there as well.",
            "",
        ]
    )
