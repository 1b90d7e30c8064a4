"""What the metrics say of the audit."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from manent_server.observability.metric import Metric, gauge

_log = logging.getLogger("manent.metrics")


@dataclass(frozen=True)
class AuditStanding:
    """What the metrics say of one receiver of the audit."""

    sink: str
    waiting: int
    lag_seconds: float
    is_failing: bool


AUDIT_UNCHAINED = Metric(
    "manent_audit_unchained_seconds",
    "gauge",
    (),
    "Age of the oldest record of the audit that has no number yet, by the database's clock.",
)
AUDIT_WAITING = Metric(
    "manent_audit_waiting_records",
    "gauge",
    ("sink",),
    "Chained records of the audit that a receiver is still to be handed.",
)
AUDIT_LAG = Metric(
    "manent_audit_lag_seconds",
    "gauge",
    ("sink",),
    "Age of the oldest of them, by the database's clock.",
)
AUDIT_FAILING = Metric(
    "manent_audit_failing",
    "gauge",
    ("sink",),
    "1 while a receiver of the audit cannot be handed records, else 0.",
)
AUDIT = (AUDIT_UNCHAINED, AUDIT_WAITING, AUDIT_LAG, AUDIT_FAILING)


class Audit(Collector):
    """The audit, read at every scrape; nothing while the database does not answer."""

    def __init__(self, read: Callable[[], tuple[float, Iterable[AuditStanding]]]) -> None:
        self._read = read

    def describe(self) -> list[GaugeMetricFamily]:
        """The families, without asking the database."""
        return [gauge(metric) for metric in AUDIT]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families with what the database says now."""
        unchained, waiting, lag, failing = self.describe()
        try:
            seconds, standings = self._read()
            unchained.add_metric([], seconds)
            for one in standings:
                waiting.add_metric([one.sink], one.waiting)
                lag.add_metric([one.sink], one.lag_seconds)
                failing.add_metric([one.sink], int(one.is_failing))
        except Exception as error:  # noqa: BLE001 - a scrape tells of an outage, it never fails
            _log.warning("the audit cannot be read: %s", type(error).__name__)
        yield from (unchained, waiting, lag, failing)
