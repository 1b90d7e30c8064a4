"""What a scraper sees."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from manent_server.domain import tally
from manent_server.domain.census import Census, Group, Tenancy
from manent_server.domain.deploy import Outcome, Phase, State
from manent_server.domain.marks import Sort
from manent_server.observability import metrics
from manent_server.observability.audit_metrics import AuditStanding
from manent_server.observability.metrics import ExecutorBeat, Metrics, SinkStanding
from manent_server.sdk.hooks import TARGET_HOOKS

ROOT = Path(__file__).parents[3]
AT = datetime(2027, 1, 31, 18, tzinfo=UTC)


def samples(counted: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(counted.render().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_every_executor_is_shown_by_every_process() -> None:
    counted = Metrics()
    counted.watch_executors(
        lambda: [
            ExecutorBeat("worker-1", is_up=True, heartbeat_at=AT),
            ExecutorBeat("worker-2", is_up=False, heartbeat_at=None),
        ]
    )

    seen = samples(counted)

    assert seen["manent_executor_up", (("executor", "worker-1"),)] == 1
    assert seen["manent_executor_up", (("executor", "worker-2"),)] == 0
    beat = ("manent_executor_heartbeat_timestamp_seconds", (("executor", "worker-1"),))
    assert seen[beat] == AT.timestamp()
    assert seen["manent_database_up", ()] == 1


def test_an_outage_of_the_database_shows_and_breaks_no_scrape() -> None:
    def read() -> Iterator[ExecutorBeat]:
        raise RuntimeError("postgresql://manent:hunter22@db")

    counted = Metrics()
    counted.watch_executors(read)
    counted.stale_write()

    seen = samples(counted)

    assert seen["manent_database_up", ()] == 0
    assert seen["manent_stale_writes_total", ()] == 1
    assert not [name for name, _ in seen if name.startswith("manent_executor")]


def test_what_happened_is_counted() -> None:
    counted = Metrics()
    counted.hook("command", "deploy", seconds=0.2)
    counted.http_request("BREW", "unmatched", 404, seconds=0.01)
    counted.log_lines_dropped(7)
    counted.engine_repair("dispatch_missing")
    counted.reload_failed()

    seen = samples(counted)

    hook = (("hook", "deploy"), ("plugin", "command"))
    assert seen["manent_hook_seconds_count", hook] == 1
    request = (("method", "other"), ("route", "unmatched"), ("status", "404"))
    assert seen["manent_http_requests_total", request] == 1
    for route in ("/api/v1/locks", "/api/v1/holds"):
        counted.http_request("POST", route, 403, seconds=0.01)
        counted.http_request("POST", route, 500, seconds=0.01)
    seen = samples(counted)
    request = (("method", "POST"), ("route", "refused"), ("status", "403"))
    assert seen["manent_http_requests_total", request] == 2
    request = (("method", "POST"), ("route", "/api/v1/locks"), ("status", "500"))
    assert seen["manent_http_requests_total", request] == 1
    assert seen["manent_log_lines_dropped_total", ()] == 7
    assert seen["manent_engine_repairs_total", (("reason", "dispatch_missing"),)] == 1
    assert seen["manent_reload_failed_total", ()] == 1


def test_two_registries_do_not_know_each_other() -> None:
    one, other = Metrics(), Metrics()

    one.stale_write()

    assert samples(other)["manent_stale_writes_total", ()] == 0


def test_the_reference_lists_exactly_what_is_served() -> None:
    counted = Metrics()
    counted.watch_executors(list)
    counted.watch_sinks(list)
    counted.watch_audit(lambda: (0.0, []))
    counted.watch_installation(lambda: Census(at=AT, tallies={(tally.PRUNE_ENDED, ""): 1}))
    counted.of_the_process.watch_repeats(lambda: {"outage": 1})
    served = {
        family.name for family in counted.registry.collect() if family.name.startswith("manent_")
    }

    assert served == {metric.name.removesuffix("_total") for metric in metrics.LISTED}
    assert all(f"| `{metric.name}` |" in metrics.render_reference() for metric in metrics.LISTED)


def test_an_environment_called_other_is_no_series_twice() -> None:
    names = ["other", *(f"e{number}" for number in range(40))]
    live = [Group(name, "ENQUEUED", "queued", None, 1, None) for name in names]
    counted = Metrics()
    counted.watch_installation(lambda: Census(at=AT, live=live))

    text = counted.render().decode()
    lines = [line for line in text.splitlines() if line.startswith("manent_environment_queued")]
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines) == 21
    assert sum(float(line.rpartition(" ")[2]) for line in lines) == 41


def saturated() -> Metrics:
    """A large installation after everything has happened that counts: ten workers, five plugins."""
    places = [f"e{number}" for number in range(tally.MOST_ENVIRONMENTS + 1)]
    hooks, results = sorted(TARGET_HOOKS), ("succeeded", "failed", "timed_out", "cancelled", "died")
    results += ("interrupted", "not_started", "unknown")
    tallies: Counter[tally.Key] = Counter({(tally.PRUNED, ""): 1, (tally.PRUNE_ENDED, ""): 1})
    tallies.update((tally.ENDED, f"{one}|{end}") for one in places for end in Outcome)
    tallies.update((tally.ATTEMPTS, f"{hook}|{end}") for hook in hooks for end in results)
    for state in State:
        tallies += tally.spent(tally.DEPLOY, timedelta(seconds=1), state)
    tallies += tally.spent(tally.GATES, timedelta(1)) + tally.spent(tally.QUEUE, timedelta(1))
    live = [Group(one, "ENQUEUED", "queued", "w1", 1, AT) for one in places]
    live += [Group("e1", "PENDING", phase, f"w{number}", 1, None) for number, phase in PHASES]
    marks = {(sort, by): 1 for sort in Sort for by in (True, False)}
    leases = [Tenancy(f"loop {number}", 1, AT) for number in range(25)]
    made = Metrics()
    made.watch_installation(
        lambda: Census(at=AT, live=live, marks=marks, leases=leases, tallies=tallies)
    )
    workers = [ExecutorBeat(f"w{number}", is_up=True, heartbeat_at=AT) for number in range(10)]
    made.watch_executors(lambda: workers)
    made.watch_sinks(lambda: [SinkStanding(f"s{number}", 1, 1) for number in range(5)])
    made.watch_audit(lambda: (0.0, [AuditStanding("siem", 1, 1, is_failing=False)]))
    for plugin in range(5):
        for hook in ("deploy", "verify", "rollback"):
            made.hook(f"p{plugin}", hook, seconds=1)
    return made


PHASES = [(number % 10, phase) for number, phase in enumerate(Phase)]


def test_there_are_fewer_than_a_thousand_series_whatever_happens() -> None:
    """The bound of the page, with every route asked and refused in every way there is."""
    made = saturated()
    document = json.loads((ROOT / "docs/reference/openapi.json").read_text())
    for route, methods in document["paths"].items():
        for method, operation in methods.items():
            for status in (200, *map(int, operation["responses"])):
                made.http_request(method.upper(), route, status, seconds=1)
    for method in ("PUT", "BREW", "GET", "POST"):
        made.http_request(method, "unmatched", 404, seconds=1)

    assert len(samples(made)) < 1_000


@pytest.mark.parametrize("metric", metrics.LISTED, ids=lambda metric: metric.name)
def test_no_label_names_a_person_or_a_deploy(metric: metrics.Metric) -> None:
    allowed = {"executor", "state", "outcome", "plugin", "hook", "result", "reason", "kind"}
    # The names of sinks and chats are among the few that manent.yml gives.
    allowed |= {"sink", "chat", "environment"}
    allowed |= {"phase", "sort", "by", "lease"}

    assert set(metric.labels) <= allowed | {"method", "route", "status"}
