"""The chart in a real API server: accepted, upgraded and removed, by both releases of Helm."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.charts.chart import CHART, HELMS, MINE, Helm, present
from tests.charts.test_values import EVERYTHING, LEAST
from tests.rig import tools
from tests.rig.cluster import Cluster
from tests.rig.serve import merged

# What the operator of Prometheus would have to teach the server first.
KNOWN = {"serviceMonitor": {"enabled": False}, "prometheusRule": {"enabled": False}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One control plane for the module."""
    try:
        made = Cluster(tmp_path_factory.mktemp("cluster"))
    except tools.Missing as missing:
        pytest.skip(str(missing))
    with made:
        yield made


def kubectl(cluster: Cluster, *arguments: str, given: str = "") -> Any:
    """What kubectl answers, as JSON."""
    ended = subprocess.run(
        [present(tools.kubectl), *arguments, "--output", "json"],
        env={"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.kubeconfig.parent)},
        input=given, text=True, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("version", HELMS)
def test_it_is_installed_upgraded_and_removed(
    cluster: Cluster, tmp_path: Path, version: str
) -> None:
    """B140: workers are named as executors are; a scale-down changes the count alone."""
    helm = Helm(present(lambda: tools.helm(version)), tmp_path)
    helm.environ["KUBECONFIG"] = str(cluster.kubeconfig)
    place = ("--namespace", version, "--create-namespace")
    for verb, values in (
        ("install", MINE),
        ("upgrade", merged(MINE, {"worker": {"replicas": 1}, "api": {"deployment": False}})),
        ("upgrade", MINE),
    ):
        ended = helm.run(verb, "manent", str(CHART), *place, values=values)
        assert ended.returncode == 0, ended.stderr
        kept = kubectl(cluster, "get", "statefulset,deployment", "--namespace", version)["items"]
        workers = kept[-1] if kept[-1]["kind"] == "StatefulSet" else kept[0]
        assert workers["metadata"]["name"] == "manent-worker"
        assert workers["spec"]["replicas"] == values.get("worker", {}).get("replicas", 2)
        assert len(kept) == (1 if "api" in values else 2)
    ended = helm.run("uninstall", "manent", "--namespace", version)
    assert ended.returncode == 0, ended.stderr
    left = kubectl(cluster, "get", "all,networkpolicy,pdb", "--namespace", version)["items"]
    assert left == []


@pytest.mark.parametrize("which", ["everything", "least"])
def test_the_server_takes_every_object(cluster: Cluster, helm: Helm, which: str) -> None:
    """Its own defaults and checks, which go beyond the schemas."""
    values = merged({"everything": EVERYTHING, "least": LEAST}[which], KNOWN)
    text = helm.text(values, "--kube-version", "1.20")
    answer = kubectl(cluster, "apply", "--dry-run=server", "--filename", "-", given=text)
    assert {"StatefulSet", "Service", "ConfigMap"} <= {one["kind"] for one in answer["items"]}
