"""What the database adds up to: the same in every process, whoever is scraped."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from manent_server.domain import tally
from manent_server.domain.census import Census
from manent_server.domain.deploy import Phase
from manent_server.observability.metric import Metric

_log = logging.getLogger("manent.metrics")
_WAITS: Final = (str(Phase.QUEUED),)

DEPLOYS_ENDED = Metric(
    "manent_deploys_ended_total",
    "counter",
    ("environment", "outcome"),
    "All deploys that ended, those included that are pruned by now.",
)
DEPLOY_SECONDS = Metric(
    "manent_deploy_seconds",
    "histogram",
    ("state",),
    "Of all deploys that ended: how long after a worker first began.",
)
GATE_SECONDS = Metric(
    "manent_deploy_gate_seconds",
    "histogram",
    (),
    "Of all deploys that began: how long gates were closed after they were accepted.",
)
QUEUE_SECONDS = Metric(
    "manent_deploy_queue_seconds",
    "histogram",
    (),
    "Of all deploys that began: how long they waited for a place and a worker.",
)
ATTEMPTS = Metric(
    "manent_attempts_total",
    "counter",
    ("hook", "result"),
    "All attempts of deploys that ended, by how each attempt ended.",
)
PRUNED = Metric(
    "manent_pruned_deploys_total", "counter", (), "All deploys that were deleted as old history."
)
PRUNE_ENDED = Metric(
    "manent_prune_ended_timestamp_seconds",
    "gauge",
    (),
    "Unix time at which the last of all prunes came to its end; missing before the first.",
)
LIVE = Metric(
    "manent_deploys_live", "gauge", ("state", "phase"), "All deploys that have not ended."
)
CANCELLING = Metric(
    "manent_cancelling_seconds",
    "gauge",
    (),
    "Of all deploys to be cancelled: how long the oldest was asked to end; 0 for none.",
)
PENDING = Metric(
    "manent_executor_pending_deploys",
    "gauge",
    ("executor",),
    "All live deploys that are an executor's, whether it lives or not.",
)
QUEUED = Metric(
    "manent_environment_queued_deploys",
    "gauge",
    ("environment",),
    "All deploys that wait for a place in an environment.",
)
TAKEN = Metric(
    "manent_environment_blocked_seconds",
    "gauge",
    ("environment",),
    "Of all environments in which a deploy waits for a place: how long the oldest is taken.",
)
APPROVALS = Metric("manent_approvals_waiting", "gauge", (), "All approvals that wait for people.")
APPROVAL_SECONDS = Metric(
    "manent_approval_oldest_seconds", "gauge", (), "How long the oldest of all of them waits."
)
MARKS = Metric(
    "manent_marks",
    "gauge",
    ("sort", "by"),
    "All marks in force: locks, freezes, holds, vetoes, stops, set by people or by manent.",
)
LEASE_HELD = Metric(
    "manent_lease_held",
    "gauge",
    ("lease",),
    "1 while one of all processes has a loop's lease; what is seldom done has none meanwhile.",
)
LEASE_TOKEN = Metric(
    "manent_lease_token",
    "gauge",
    ("lease",),
    "The token of a loop's lease, of all processes: it rises whenever the lease changes hands.",
)
LEASE_UNHELD = Metric(
    "manent_lease_unheld_seconds",
    "gauge",
    ("lease",),
    "How long a loop of all is overdue: no process has its lease, and its next round was due.",
)
CONFIGURATIONS = Metric(
    "manent_configurations",
    "gauge",
    (),
    "Different configurations that all live workers run with; more than 1 is to pass soon.",
)
FENCED = Metric(
    "manent_fenced",
    "gauge",
    (),
    "1 while all processes begin nothing because the database went back in time, else 0.",
)
CENSUS = (
    FENCED,
    DEPLOYS_ENDED,
    DEPLOY_SECONDS,
    GATE_SECONDS,
    QUEUE_SECONDS,
    ATTEMPTS,
    PRUNED,
    PRUNE_ENDED,
    LIVE,
    CANCELLING,
    PENDING,
    QUEUED,
    TAKEN,
    APPROVALS,
    APPROVAL_SECONDS,
    MARKS,
    LEASE_HELD,
    LEASE_TOKEN,
    LEASE_UNHELD,
    CONFIGURATIONS,
)


class Installation(Collector):
    """All of it, read at every scrape; nothing while the database does not answer."""

    def __init__(self, read: Callable[[], Census]) -> None:
        self._read = read

    def describe(self) -> list[Family]:
        """The families, without asking the database."""
        return [_family(metric) for metric in CENSUS]

    def collect(self) -> Iterable[Family]:
        """The families with what the database says now."""
        try:
            census = self._read()
        except Exception as error:  # noqa: BLE001 - a scrape tells of an outage, it never fails
            _log.warning("the installation cannot be read: %s", type(error).__name__)
            return self.describe()
        return [*_tallied(census), *_live(census), *_waiting(census), *_leases(census)]


def _family(metric: Metric) -> Family:
    if metric.kind == "histogram":
        return HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    if metric.kind == "counter":
        return CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    return _gauge(metric)


def _gauge(metric: Metric) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)


def _one(metric: Metric, value: float) -> GaugeMetricFamily:
    family = _gauge(metric)
    family.add_metric([], value)
    return family


def _tallied(census: Census) -> Iterator[Family]:
    for metric, name in ((DEPLOYS_ENDED, tally.ENDED), (ATTEMPTS, tally.ATTEMPTS)):
        family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        for (of, labels), value in sorted(census.tallies.items()):
            if of == name:
                family.add_metric(labels.split("|"), value)
        yield family
    histograms = ((DEPLOY_SECONDS, tally.DEPLOY), (GATE_SECONDS, tally.GATES))
    for metric, name in (*histograms, (QUEUE_SECONDS, tally.QUEUE)):
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for found in tally.durations(name, census.tallies):
            histogram.add_metric(found.labels, found.buckets, sum_value=found.seconds)
        yield histogram
    pruned = CounterMetricFamily(PRUNED.name, PRUNED.help)
    pruned.add_metric([], census.tallies.get((tally.PRUNED, ""), 0))
    yield pruned
    ended = census.tallies.get((tally.PRUNE_ENDED, ""))
    yield _gauge(PRUNE_ENDED) if ended is None else _one(PRUNE_ENDED, ended)


def _live(census: Census) -> Iterator[Family]:
    live, pending = _gauge(LIVE), _gauge(PENDING)
    by_phase: Counter[tuple[str, str]] = Counter()
    by_executor: Counter[str] = Counter()
    asked: list[datetime] = []
    for group in census.live:
        by_phase[group.state, group.phase] += group.count
        if group.executor is not None:
            by_executor[group.executor] += group.count
        if group.cancel_since is not None:
            asked.append(group.cancel_since)
    for labels, count in sorted(by_phase.items()):
        live.add_metric(labels, count)
    for executor, count in sorted(by_executor.items()):
        pending.add_metric([executor], count)
    yield from (live, pending, _one(CANCELLING, census.since(min(asked, default=None))))


def _waiting(census: Census) -> Iterator[Family]:
    queued, taken, marks = _gauge(QUEUED), _gauge(TAKEN), _gauge(MARKS)
    behind: Counter[str] = Counter()
    for group in census.live:
        if group.phase in _WAITS:
            behind[group.environment] += group.count
    blocked = {name: census.since(census.taken_since.get(name)) for name in behind}
    # Those in which somebody has waited longest are shown by name; one may be called `other`.
    named = sorted(blocked.keys() - {tally.OTHER}, key=lambda name: (-blocked[name], name))
    named = named[: tally.MOST_ENVIRONMENTS]
    rest = [name for name in behind if name not in named]
    for name in named:
        queued.add_metric([name], behind[name])
        taken.add_metric([name], blocked[name])
    if rest:
        queued.add_metric([tally.OTHER], sum(behind[name] for name in rest))
        taken.add_metric([tally.OTHER], max(blocked[name] for name in rest))
    for (sort, is_automatic), count in sorted(census.marks.items()):
        marks.add_metric([sort, "manent" if is_automatic else "people"], count)
    waiting, since = census.approvals
    yield from (queued, taken, marks, _one(APPROVALS, waiting))
    yield _one(APPROVAL_SECONDS, census.since(since))


def _leases(census: Census) -> Iterator[Family]:
    held, token, unheld = _gauge(LEASE_HELD), _gauge(LEASE_TOKEN), _gauge(LEASE_UNHELD)
    for lease in census.leases:
        held.add_metric([lease.name], int(lease.until > census.at))
        token.add_metric([lease.name], lease.token)
        unheld.add_metric([lease.name], census.since(lease.until + lease.rests))
    yield from (held, token, unheld, _one(CONFIGURATIONS, census.configurations))
    yield _one(FENCED, int(census.is_fenced))
