"""The page on watching manent, and the rules and the dashboard beside it."""

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from manent_server.observability import metrics

ROOT = Path(__file__).parents[2]
RULES = ROOT / "examples" / "observability"
PAGE = ROOT / "docs" / "how-to" / "watch-manent.md"
PROMTOOL = shutil.which("promtool")
NEEDED = "promtool is not here: apt-get install prometheus"


@cache
def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((RULES / "alerts.yml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_each_alert_leads_to_a_page_that_exists(alert: dict[str, Any]) -> None:
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")

    assert (ROOT / page).is_file()
    assert not anchor or anchor in anchors(ROOT / page)
    assert alert["labels"]["severity"] in {"page", "warn"}


@pytest.mark.parametrize("file", ["alerts.yml", "alerts.test.yml", "dashboard.json", PAGE])
def test_every_metric_that_is_named_is_served(file: str | Path) -> None:
    kinds = {metric.name: metric.kind for metric in metrics.LISTED}
    known = set(kinds)
    for name, kind in kinds.items():
        if kind == "histogram":
            known |= {f"{name}_{part}" for part in ("bucket", "count", "sum")}

    text = (RULES / file).read_text().replace("manent_deploy_*seconds", "")

    assert set(re.findall(r"\bmanent_[a-z_]+", text)) <= known


def test_every_alert_is_tried_by_the_rules_own_test() -> None:
    text = (RULES / "alerts.test.yml").read_text()

    for alert in alerts():
        assert f"- alertname: {alert['alert']}\n" in text


def test_every_panel_asks_something() -> None:
    board = json.loads((RULES / "dashboard.json").read_text())

    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        assert all(target["expr"] for target in panel["targets"])


@pytest.mark.skipif(PROMTOOL is None, reason=NEEDED)
def test_prometheus_takes_the_rules_and_each_fires_when_it_should() -> None:
    for command in (
        ["check", "rules", "alerts.yml"],
        ["check", "config", "prometheus.yml"],
        ["test", "rules", "alerts.test.yml"],
    ):
        done = subprocess.run(
            [str(PROMTOOL), *command], cwd=RULES, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(PROMTOOL is None, reason=NEEDED)
def test_prometheus_takes_the_questions_of_the_dashboard(tmp_path: Path) -> None:
    board = json.loads((RULES / "dashboard.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    rules = [{"record": f"r{number}", "expr": expr} for number, expr in enumerate(asked)]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]}))

    done = subprocess.run(
        [str(PROMTOOL), "check", "rules", str(file)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
