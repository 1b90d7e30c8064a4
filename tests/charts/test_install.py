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
    """B140: workers are named as executors are; a scale-down changes the count alone.

    B133: a Job cannot be changed, so another image is another Job.
    """
    helm = Helm(present(lambda: tools.helm(version)), tmp_path)
    helm.environ["KUBECONFIG"] = str(cluster.kubeconfig)
    place = ("--namespace", version, "--create-namespace")
    migrated: list[str] = []
    for verb, values in (
        ("install", MINE),
        ("upgrade", merged(MINE, {"worker": {"replicas": 1}, "api": {"deployment": False}})),
        ("upgrade", merged(MINE, {"image": {"tag": "next"}})),
    ):
        ended = helm.run(verb, "manent", str(CHART), *place, values=values)
        assert ended.returncode == 0, ended.stderr
        kept = kubectl(cluster, "get", "statefulset,deployment", "--namespace", version)["items"]
        workers = kept[-1] if kept[-1]["kind"] == "StatefulSet" else kept[0]
        assert workers["metadata"]["name"] == "manent-worker"
        assert workers["spec"]["replicas"] == values.get("worker", {}).get("replicas", 2)
        assert len(kept) == (1 if "api" in values else 2)
        (job,) = kubectl(cluster, "get", "job", "--namespace", version)["items"]
        migrated.append(job["metadata"]["name"])
    assert len(set(migrated)) == len(migrated) - 1
    ended = helm.run("uninstall", "manent", "--namespace", version)
    assert ended.returncode == 0, ended.stderr
    left = kubectl(cluster, "get", "all,networkpolicy,pdb", "--namespace", version)["items"]
    assert left == []


# Texts that YAML takes for something else unless they are quoted, and a number it prints as 1e+09.
ODD = {
    "image": {"tag": "1.0", "pullSecrets": ["123"]},
    "secrets": ["1e3"], "configMaps": ["true"], "places": ["0x1f", "null"],
    "serviceAccount": {"name": "123"},
    "worker": {"volume": {"storageClassName": "0", "size": "1"}, "artifacts": {"sizeLimit": "1"}},
    "pod": {"userID": 1000660000, "priorityClassName": "1.5", "annotations": {"a": "on"}},
    "environment": [{"name": "N", "value": "1"}],
}  # fmt: skip
NOTHING = {
    "secrets": ["manent"], "image": {"tag": ""},
    "pod": {"userID": None, "priorityClassName": None},
    "worker": {"volume": {"storageClassName": None}, "resources": {"limits": None}},
}  # fmt: skip
SETS = {
    "everything": ("manent", merged(EVERYTHING, KNOWN)),
    "least": ("manent", merged(LEAST, KNOWN)),
    "odd": ("on", ODD),
    "nothing": ("null", NOTHING),
}


@pytest.mark.parametrize("which", SETS)
def test_the_server_takes_every_object(cluster: Cluster, helm: Helm, which: str) -> None:
    """Its own defaults and checks, which go beyond the schemas."""
    release, values = SETS[which]
    made = helm.run("template", release, str(CHART), "--kube-version", "1.20", values=values)
    assert made.returncode == 0, made.stderr
    answer = kubectl(cluster, "apply", "--dry-run=server", "--filename", "-", given=made.stdout)
    assert {"StatefulSet", "Service", "ConfigMap"} <= {one["kind"] for one in answer["items"]}
    (workers,) = [one for one in answer["items"] if one["kind"] == "StatefulSet"]
    labels = workers["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/instance"] == release
