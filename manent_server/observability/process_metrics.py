"""What one process shows of itself by being asked."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from manent_server.observability.metric import Metric

HOOKS = Metric(
    "manent_hook_processes",
    "gauge",
    (),
    "Hooks that run in this process's worker, each with a guard of its own.",
)
INTERVAL = Metric(
    "manent_retention_interval_seconds",
    "gauge",
    (),
    "How often old history is to be pruned; 0 while retention is off.",
)
PATIENCE = Metric(
    "manent_auto_recover_after_seconds",
    "gauge",
    (),
    "After how long a silence others take over a worker's deploys; 0 while that is off.",
)
REPEATS = Metric(
    "manent_database_retries_total",
    "counter",
    ("reason",),
    "Transactions of this process that were repeated: outage, or contention for rows and time.",
)
OF_THE_PROCESS = (HOOKS, INTERVAL, PATIENCE, REPEATS)


class OfTheProcess:
    """Gauges whose value is asked for at every scrape; 0 until somebody says whom to ask."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._hooks = Gauge(HOOKS.name, HOOKS.help, registry=registry)
        self._interval = Gauge(INTERVAL.name, INTERVAL.help, registry=registry)
        self._patience = Gauge(PATIENCE.name, PATIENCE.help, registry=registry)

    def watch_hooks(self, count: Callable[[], int]) -> None:
        """Show how many hooks run."""
        self._hooks.set_function(count)

    def watch_interval(self, seconds: Callable[[], float]) -> None:
        """Show how often pruning is due."""
        self._interval.set_function(seconds)

    def watch_patience(self, seconds: Callable[[], float]) -> None:
        """Show when a silent worker is taken over from."""
        self._patience.set_function(seconds)

    def watch_repeats(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Show how often transactions were repeated, by reason."""
        self._registry.register(_Repeats(read))


class _Repeats(Collector):
    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read

    def describe(self) -> list[CounterMetricFamily]:
        """The family, without values."""
        return [CounterMetricFamily(REPEATS.name, REPEATS.help, labels=REPEATS.labels)]

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The family with what was counted."""
        (family,) = self.describe()
        for reason, count in sorted(self._read().items()):
            family.add_metric([reason], count)
        yield family
