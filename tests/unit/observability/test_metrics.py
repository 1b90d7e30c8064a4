"""What a scraper sees."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families

from manent_server.domain import tally
from manent_server.domain.census import Census
from manent_server.observability import metrics
from manent_server.observability.metrics import ExecutorBeat, Metrics

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


@pytest.mark.parametrize("metric", metrics.LISTED, ids=lambda metric: metric.name)
def test_no_label_names_a_person_or_a_deploy(metric: metrics.Metric) -> None:
    allowed = {"executor", "state", "outcome", "plugin", "hook", "result", "reason", "kind"}
    # The names of sinks and chats are among the few that manent.yml gives.
    allowed |= {"sink", "chat", "environment"}
    allowed |= {"phase", "sort", "by", "lease"}

    assert set(metric.labels) <= allowed | {"method", "route", "status"}
