"""What a metric is."""

from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily


@dataclass(frozen=True)
class Metric:
    """One line of the list."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


def gauge(metric: Metric) -> GaugeMetricFamily:
    """A family of its own, without values."""
    return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
