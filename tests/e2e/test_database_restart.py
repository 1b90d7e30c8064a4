"""A restart of the database under a server that goes on, watched by a real Prometheus."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
import yaml

from tests.rig.ledger import Ledger
from tests.rig.ports import free_port
from tests.rig.postgres import Postgres
from tests.rig.process import until
from tests.rig.rules import AtMost
from tests.rig.serve import Rig

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]
RULES = Path(__file__).parents[2] / "examples" / "observability" / "alerts.yml"
WITHIN = 60


@pytest.fixture
def rig(tmp_path: Path, own_postgres: Postgres) -> Iterator[Rig]:
    ledger = Ledger(tmp_path)
    rule = {"name": "release", "quorum": 2, "unknown_requester": "allow"}
    later = {"attempts": 3, "initial": "90s", "factor": 1, "cap": "90s", "total": "1h"}
    config: dict[str, Any] = {
        "recovery": {"auto_recover_after": "6s"},
        "environments": {
            "staging": {"tier": "staging", "concurrency": 9},
            "guarded": {"tier": "staging", "approvals": [rule]},
        },
        "applications": {
            "asked": ledger.application(environments=("guarded",)),
            "ticked": ledger.application(),
            "again": ledger.application(retry=later),
        },
    }
    with Rig(tmp_path, own_postgres.create_database(), config) as made:
        yield made


@pytest.fixture
def prometheus(tmp_path: Path, rig: Rig) -> Iterator[str | None]:
    """The address of a Prometheus that scrapes the server by our rules; None for want of one."""
    program = shutil.which("prometheus")
    if program is None:
        yield None
        return
    url = rig.metrics_url()
    scrape = {"job_name": "manent", "static_configs": [{"targets": [url.split("/")[2]]}]}
    config = {
        "global": {"scrape_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [scrape],
    }
    file, port = tmp_path / "prometheus.yml", free_port()
    file.write_text(yaml.safe_dump(config))
    told = [f"--storage.tsdb.path={tmp_path / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}"]
    with (tmp_path / "prometheus.log").open("wb") as out:
        process = subprocess.Popen(
            [program, f"--config.file={file}", *told], stdout=out, stderr=out
        )
        yield f"http://127.0.0.1:{port}"
        process.terminate()
        process.wait(60)


def sql(rig: Rig, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(rig.database_url, autocommit=True) as connection:
        cursor = connection.execute(query, values)
        return cursor.fetchall() if cursor.description else []


def asked(prometheus: str, query: str) -> float | None:
    found = httpx2.get(f"{prometheus}/api/v1/query", params={"query": query}).json()
    values = found["data"]["result"]
    return float(values[0]["value"][1]) if values else None


def posted(rig: Rig, path: str, body: Any, **more: Any) -> Any:
    """The answer to a request that must succeed; a command would start a process for it."""
    answer = rig.http("POST", path, json=body, timeout=WITHIN, **more)
    assert answer.status_code < 300, answer.text
    return answer.json()


def approve(rig: Rig, deploy: str, token: str) -> None:
    (asked,) = rig.get("/approvals", deploy=deploy)["items"]
    signed = {"Authorization": f"Bearer {token}"}
    posted(rig, f"/approvals/{asked['id']}/decisions", {"decision": "approve"}, headers=signed)


def leave_behind(rig: Rig) -> str:
    """A deploy that waits for its second try, as if it were a stopped worker's."""
    rig.ledger.tell({"exit": 1}, application="again")
    deploy = str(rig.deploy("1", application="again")["id"])

    def is_parked() -> bool:
        query = "SELECT 1 FROM manent.wakes w, manent.deploys d WHERE w.deploy = d.id AND d.id = %s"
        return bool(sql(rig, query, deploy))

    until(is_parked, what="the second try to be waited for")
    known = sql(rig, "SELECT to_jsonb(e) FROM manent.executors e")[0][0]
    gone = json.dumps(
        {**known, "id": "gone", "incarnation": "x", "stopped_at": known["started_at"]}
    )
    sql(rig, "INSERT INTO manent.executors SELECT (jsonb_populate_record("
             "NULL::manent.executors, %s::jsonb)).*", gone)  # fmt: skip
    return deploy


@pytest.fixture
def voters(rig: Rig) -> dict[str, str]:
    """A token for each of two people who may approve."""
    of = {"role": "approver", "kind": "person"}
    return {name: posted(rig, "/tokens", {"name": name, **of})["token"] for name in ("bob", "eve")}


@pytest.mark.promise
@pytest.mark.timeout(300)
def test_everything_goes_on_by_itself_after_the_database_restarted(
    rig: Rig,
    own_postgres: Postgres,
    prometheus: str | None,
    voters: dict[str, str],
    at_most: AtMost,
) -> None:
    """B35: a deploy, an approval, a tick, a recovery and a prune; no process is restarted."""
    rig.ledger.tell({"exit": 65}, version="old")
    assert rig.deployed("old")["outcome"] in ("failed", "rolled_back")
    pending = rig.deploy("1", application="asked", environment="guarded")["id"]
    until(lambda: rig.get("/approvals", deploy=pending)["items"], what="the question")
    approve(rig, pending, voters["bob"])
    ticks = {"name": "tick", "application": "ticked", "environment": "staging", "version": "1"}
    posted(rig, "/schedules", {**ticks, "cron": "* * * * *"})
    left = leave_behind(rig)
    process = rig.process().pid

    restart(rig, own_postgres, prometheus, soon=at_most(3, beside=8))
    back = time.monotonic()
    # The tick is due now, not at the end of the minute; the deploy is a stopped worker's.
    sql(rig, "UPDATE manent.schedules SET next_at = next_at - interval '1 minute' "
             "WHERE extract(second FROM now()) < 45")  # fmt: skip
    sql(rig, "UPDATE manent.deploys SET executor = 'gone', incarnation = 'x' WHERE id = %s", left)

    until(rig.is_ready, what="ready", limit=WITHIN)
    approve(rig, pending, voters["eve"])
    fresh = rig.deployed("new")
    assert fresh["outcome"] == "deployed"
    assert rig.ended(pending, limit=WITHIN)["outcome"] == "deployed"
    assert len(rig.get("/approvals", deploy=pending)["items"][0]["votes"]) == 2
    assert_the_loops_work(rig, left)
    assert time.monotonic() - back < WITHIN + 15
    assert rig.process().pid == process
    assert_lines_name_their_deploy(rig, fresh["id"])
    if prometheus is None:
        pytest.skip("all but the scrape: no prometheus here, apt-get install prometheus")
    assert_it_was_scraped(prometheus)


def restart(rig: Rig, server: Postgres, prometheus: str | None, *, soon: float) -> None:
    """End the database at once and start it again; meanwhile the process says so, in time."""
    url = f"{rig.metrics_url()}/metrics"

    def is_shown() -> bool:
        began = time.monotonic()
        text = httpx2.get(url, timeout=30).text
        # It gives up after two seconds: Prometheus itself waits ten.
        assert time.monotonic() - began < soon
        return "\nmanent_database_up 0.0" in text

    server.stop(signal.SIGQUIT)
    until(is_shown, what="the outage to show")
    assert httpx2.get(f"{rig.metrics_url()}/livez", timeout=30).status_code == 200
    if prometheus is not None:
        # It scrapes in its own time: the outage has to last until it has seen it.
        until(lambda: asked(prometheus, "manent_database_up") == 0, what="the outage scraped")
    server.start()


def assert_the_loops_work(rig: Rig, left: str) -> None:
    """A schedule ticks, a stopped worker is taken over from, old deploys are pruned."""
    until(lambda: [run for run in rig.get("/schedules/tick/runs", limit=50)["items"]
                   if run["result"] == "fired"], what="a tick", limit=WITHIN + 5)  # fmt: skip
    # By the watcher, which claims the worker, or by the reconciler: whoever is first.
    taken = "SELECT 1 FROM manent.deploys WHERE id = %s AND executor IS DISTINCT FROM 'gone'"
    until(lambda: sql(rig, taken, left), what="the recovery", limit=WITHIN)
    assert posted(rig, "/admin/prune", {"max_age": "1ms", "keep_releases": 1})["deploys"] >= 1


def assert_it_was_scraped(prometheus: str) -> None:
    ends = 'sum(manent_deploys_ended_total{environment="staging",outcome="deployed"})'
    until(lambda: (asked(prometheus, ends) or 0) >= 1, what="the scrape")
    assert asked(prometheus, 'up{job="manent"}') == 1
    assert asked(prometheus, "manent_auto_recover_after_seconds") == 6
    assert asked(prometheus, "min_over_time(manent_database_up[5m])") == 0
    assert (asked(prometheus, 'count({__name__=~"manent_.*"})') or 9999) < 1_000


def assert_lines_name_their_deploy(rig: Rig, deploy: str) -> None:
    """Of the log of the process: JSON, with what each line is about."""
    lines = [json.loads(line) for line in rig.logs().splitlines() if line.startswith("{")]
    mine = [line for line in lines if line.get("deploy") == deploy]
    about = [line for line in mine if line.get("step") == "deploy:host"]
    assert about
    assert {(line["epoch"] > 0, line["attempt"]) for line in about} == {(True, 1)}
    requests = [line for line in lines if line["event"] == "request"]
    assert requests
    assert all(line["request_id"] for line in requests)
