"""What the chart's pods may, how they are probed and stopped, and what they are given."""

import json
from pathlib import Path

import pytest
import yaml

from tests.charts.chart import CHART, MINE, Document, Helm, one, pods
from tests.charts.test_values import EVERYTHING, LEAST
from tests.rig.serve import BIN, merged, run

ALL = {"defaults": MINE, "everything": EVERYTHING, "least": LEAST}
WORKLOADS = {"StatefulSet", "Deployment", "Job"}


def container(pod: Document) -> Document:
    (found,) = pod["spec"]["containers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("which", ALL)
def test_pods_are_restricted(helm: Helm, which: str) -> None:
    """The restricted level of the Pod Security Standards, a read-only root, no service links."""
    for pod in pods(helm.render(ALL[which])).values():
        spec, mine = pod["spec"], container(pod)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert mine["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "privileged": False, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert spec["enableServiceLinks"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(spec)
        assert all("hostPath" not in volume for volume in spec["volumes"])
        mounted = {mount["name"] for mount in mine["volumeMounts"]}
        claimed = {"work"} if "--no-worker" not in mine["args"] else set()
        assert mounted <= {volume["name"] for volume in spec["volumes"]} | claimed


def test_three_probes_ask_three_things(helm: Helm) -> None:
    """B133, B142: alive is asked without the database, and before anything else of a start."""
    found = pods(helm.render())
    assert set(found) == WORKLOADS
    for kind in ("StatefulSet", "Deployment"):
        mine = container(found[kind])
        ports = {port["name"]: port["containerPort"] for port in mine["ports"]}
        assert ports["metrics"] == 8421
        assert mine["startupProbe"]["httpGet"] == {"path": "/livez", "port": "metrics"}
        assert mine["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "metrics"}
        assert mine["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
        assert mine["readinessProbe"]["failureThreshold"] >= 3
        assert mine["readinessProbe"].get("successThreshold", 1) == 1
    migration = found["Job"]
    assert not {"livenessProbe", "startupProbe", "readinessProbe"} & set(container(migration))


def test_nothing_ends_a_long_migration(helm: Helm) -> None:
    """B133: no limit of time, no hook of Helm; what changes its pod makes another Job."""
    documents = helm.render()
    job = one(documents, "Job")
    assert "activeDeadlineSeconds" not in job["spec"]
    assert "activeDeadlineSeconds" not in job["spec"]["template"]["spec"]
    assert "annotations" not in job["metadata"]
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert container(job["spec"]["template"])["args"] == ["migrate", "--wait", "24h"]
    other = one(helm.render(merged(MINE, {"image": {"tag": "v2"}})), "Job")
    assert other["metadata"]["name"] != job["metadata"]["name"]
    assert not [name for name in pods(helm.render(LEAST)) if name == "Job"]


def test_workers_are_told_apart_and_have_time_to_stop(helm: Helm) -> None:
    """B140: pod name = host name = executor id, a volume each, six minutes for the drain."""
    workers = one(helm.render(), "StatefulSet")
    assert workers["metadata"]["name"] == "manent-worker"
    assert "hostname" not in workers["spec"]["template"]["spec"]
    spec = workers["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] == 360
    (claim,) = workers["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "64Mi"
    mounts = {
        mount["name"]: mount["mountPath"] for mount in container(spec_of(workers))["volumeMounts"]
    }
    assert mounts[claim["metadata"]["name"]] == "/var/lib/manent"
    assert (
        one(helm.render(merged(MINE, {"worker": {"replicas": 0}})), "StatefulSet")["spec"][
            "replicas"
        ]
        == 0
    )


@pytest.mark.parametrize(("release", "policy"), [("1.26", None), ("1.27", "AlwaysAllow")])
def test_a_node_can_be_drained_while_the_database_is_away(
    helm: Helm, release: str, policy: str | None
) -> None:
    """No pod is ready then; an older cluster does not know the field."""
    documents = yaml.safe_load_all(helm.text(MINE, "--kube-version", release))
    budgets = [one for one in documents if one and one["kind"] == "PodDisruptionBudget"]
    assert [one["spec"].get("unhealthyPodEvictionPolicy") for one in budgets] == [policy, policy]


def spec_of(workload: Document) -> Document:
    found: Document = workload["spec"]["template"]
    return found


def test_the_api_is_in_the_workers_or_beside_them(helm: Helm) -> None:
    beside = helm.render()
    assert container(spec_of(one(beside, "StatefulSet")))["args"] == ["serve", "--no-api"]
    assert container(spec_of(one(beside, "Deployment")))["args"] == ["serve", "--no-worker"]
    within = helm.render(merged(MINE, {"api": {"deployment": False}}))
    assert "Deployment" not in pods(within)
    away = helm.render(merged(MINE, {"api": {"replicas": 0}}))
    assert one(away, "Deployment")["spec"]["replicas"] == 0
    assert container(spec_of(one(within, "StatefulSet")))["args"] == ["serve"]


@pytest.mark.parametrize("which", ALL)
def test_what_selects_finds_its_pods(helm: Helm, which: str) -> None:
    """Services, budgets, policies, monitors: each selector meets labels, each port a port."""
    documents = helm.render(ALL[which])
    found = pods(documents)
    for document in documents:
        if document["kind"] == "ServiceMonitor":
            wanted = document["spec"]["selector"]["matchLabels"]
            services = [one for one in documents if one["kind"] == "Service"]
            assert [s for s in services if wanted.items() <= s["metadata"]["labels"].items()]
            continue
        selector = document.get("spec", {}).get("selector") or document.get("spec", {}).get(
            "podSelector"
        )
        if selector is None:
            continue
        labels = selector.get("matchLabels", selector)
        met = [p for p in found.values() if labels.items() <= p["metadata"]["labels"].items()]
        assert met, document["metadata"]["name"]
        if document["kind"] == "Service":
            names = {port["name"] for pod in met for port in container(pod).get("ports", ())}
            assert {port["targetPort"] for port in document["spec"]["ports"]} <= names


def test_what_is_not_ready_is_reached_by_its_name_and_looked_at(helm: Helm) -> None:
    """A fenced or starting pod is what somebody wants to ask."""
    services = {
        found["metadata"]["name"]: found["spec"]
        for found in helm.render()
        if found["kind"] == "Service"
    }
    for name in ("manent-worker", "manent-metrics"):
        assert services[name]["publishNotReadyAddresses"] is True
        assert services[name]["clusterIP"] == "None"
    component = "app.kubernetes.io/component"
    assert services["manent"]["selector"][component] == "api"
    assert "publishNotReadyAddresses" not in services["manent"]
    within = helm.render(merged(MINE, {"api": {"deployment": False}}))
    assert one(within, "Service", "api")["spec"]["selector"][component] == "worker"


def test_a_pod_can_write_where_it_must_and_follows_its_settings(helm: Helm) -> None:
    before = pods(helm.render())
    after = pods(helm.render(merged(MINE, {"settings": {"dbos": {"drain_timeout": "90s"}}})))
    for kind, pod in before.items():
        given = pod["spec"]["securityContext"]
        assert given["fsGroup"] == given["runAsUser"] == given["runAsGroup"] == 65532
        mark = "checksum/settings"
        assert pod["metadata"]["annotations"][mark] != after[kind]["metadata"]["annotations"][mark]
        assert pod["spec"]["automountServiceAccountToken"] is False
        mounts = {mount["mountPath"] for mount in container(pod)["volumeMounts"]}
        assert {"/tmp", "/var/lib/manent"} <= mounts  # noqa: S108 - inside a pod
    assert one(helm.render(), "Job")["spec"]["backoffLimit"] >= 10


def test_the_api_answers_while_it_is_replaced(helm: Helm) -> None:
    api = one(helm.render(), "Deployment")
    assert api["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    sleeps = container(spec_of(api))["lifecycle"]["preStop"]["exec"]["command"]
    assert "sleep(5)" in sleeps[-1]
    for budget in (found for found in helm.render() if found["kind"] == "PodDisruptionBudget"):
        assert budget["spec"]["maxUnavailable"] == 1


def test_the_network_lets_in_what_is_served_and_out_what_is_listed(helm: Helm) -> None:
    policy = one(helm.render(), "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert [rule["ports"][0]["port"] for rule in policy["ingress"]] == [8420, 8421]
    assert all("from" not in rule for rule in policy["ingress"])
    strict = one(helm.render(EVERYTHING), "NetworkPolicy")["spec"]
    assert strict["policyTypes"] == ["Ingress", "Egress"]
    names, *listed = strict["egress"]
    assert names["ports"] == [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]
    assert listed == [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]


def test_secrets_come_by_name_alone(helm: Helm) -> None:
    documents = helm.render(EVERYTHING)
    assert "Secret" not in {document["kind"] for document in documents}
    for pod in pods(documents).values():
        given = container(pod)["envFrom"]
        assert {"secretRef": {"name": "one"}} in given
        assert {"secretRef": {"name": "two"}} in given
        assert {"configMapRef": {"name": "region"}} in given


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])  # noqa: S104 - inside a pod
def test_the_settings_are_good(helm: Helm, tmp_path: Path, address: str) -> None:
    """As a pod sees them: keys of a ConfigMap are links into a folder that is a link."""
    documents = helm.render(merged(MINE, {"places": ["shop"], "pod": {"address": address}}))
    text = one(documents, "ConfigMap")["data"]["manent.yml"]
    settings = yaml.safe_load(text)
    assert settings["recovery"]["auto_recover_after"] == "5m"
    assert settings["audit"]["file"] == "-"
    (variable,) = [
        env["value"] for env in container(spec_of(one(documents, "Job")))["env"]
        if env["name"] == "MANENT_CONFIG"
    ]  # fmt: skip
    place = {"environments": {"prod": {"tier": "production"}}}
    mounted(tmp_path / Path(variable).parent.relative_to("/"), "manent.yml", text)
    mounted(tmp_path / "etc/manent/places", "shop.yml", yaml.safe_dump(place))
    environ = {
        "MANENT_CONFIG": str(tmp_path / Path(variable).relative_to("/")),
        "DATABASE_URL": "postgresql://manent@db/manent",
        "PATH": "/bin",
        "HOME": str(tmp_path),
    }
    ended = run([str(BIN / "manent-server"), "check"], cwd=tmp_path, environ=environ)
    assert ended.returncode == 0, ended.stderr


def mounted(folder: Path, key: str, text: str) -> None:
    """A folder as the kubelet makes one of a ConfigMap."""
    (folder / "..2026_01_01").mkdir(parents=True)
    (folder / "..2026_01_01" / key).write_text(text)
    (folder / "..data").symlink_to("..2026_01_01")
    (folder / key).symlink_to(f"..data/{key}")


def test_alerts_and_dashboard_are_those_of_the_examples(helm: Helm) -> None:
    """One text for both: what is checked there is what the chart brings."""
    examples = CHART.parents[1] / "examples" / "observability"
    documents = helm.render(EVERYTHING)
    rules = one(documents, "PrometheusRule")["spec"]
    mine = yaml.safe_load((examples / "alerts.yml").read_text())
    for group in mine["groups"]:
        for rule in group["rules"]:
            path = rule["annotations"]["runbook_url"]
            rule["annotations"]["runbook_url"] = f"https://docs.example/{path}"
    assert rules == mine
    (kept,) = [
        text for found in documents for text in [found.get("data", {}).get("manent.json")] if text
    ]
    assert json.loads(kept) == json.loads((examples / "dashboard.json").read_text())
