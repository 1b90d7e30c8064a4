"""Another value for every value of the chart, and what has to be set for it to count."""

from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]

_FROM = [{"podSelector": {"matchLabels": {"app": "ingress"}}}]
# By the dotted path. What is not here is changed by its type: a switch is turned, a number raised.
OTHER: dict[str, Any] = {
    "nameOverride": "other",
    "fullnameOverride": "other",
    "image.repository": "registry.example/manent",
    "image.tag": "v9",
    "image.digest": f"sha256:{'a' * 64}",
    "image.pullPolicy": "Always",
    "image.pullSecrets": ["registry"],
    "settings.server.url": "https://manent.example",
    "settings.database.url": "postgresql://manent:${PASSWORD}@db/manent",
    "settings.recovery.auto_recover_after": "10m",
    "settings.audit.file": "/var/log/manent/audit.jsonl",
    "places": ["shop", "billing"],
    "secrets": ["one", "two"],
    "configMaps": ["region"],
    "environment": [{"name": "REGION", "value": "eu"}],
    "volumes": [{"name": "keys", "secret": {"secretName": "keys"}}],
    "volumeMounts": [{"name": "tmp", "mountPath": "/more"}],
    "worker.podManagementPolicy": "OrderedReady",
    "worker.volume.size": "1Gi",
    "worker.volume.storageClassName": "fast",
    "worker.volume.accessModes": ["ReadWriteOncePod"],
    "worker.artifacts.sizeLimit": "20Gi",
    "api.service.type": "NodePort",
    "api.service.annotations": {"a.example/b": "c"},
    "migration.wait": "1h30m",
    "serviceAccount.name": "mine",
    "serviceAccount.annotations": {"a.example/b": "c"},
    "networkPolicy.api": _FROM,
    "networkPolicy.metrics": _FROM,
    "networkPolicy.egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
    "serviceMonitor.interval": "1m",
    "serviceMonitor.labels": {"release": "prometheus"},
    "prometheusRule.labels": {"release": "prometheus"},
    "prometheusRule.runbooks": "https://docs.example/",
    "dashboard.labels.grafana_dashboard": "yes",
    "pod.address": "::",
    "pod.annotations": {"a.example/b": "c"},
    "pod.labels": {"team": "sre"},
    "pod.nodeSelector": {"disk": "ssd"},
    "pod.tolerations": [{"key": "only", "operator": "Exists"}],
    "pod.affinity": {"nodeAffinity": {}},
    "pod.topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "manent"}},
        }
    ],
    "pod.priorityClassName": "high",
}
_QUANTITIES = {"cpu": "300m", "memory": "300Mi"}
# What counts only beside something else.
BESIDE: dict[str, dict[str, Any]] = {
    "serviceMonitor.interval": {"serviceMonitor": {"enabled": True}},
    "serviceMonitor.labels": {"serviceMonitor": {"enabled": True}},
    "prometheusRule.labels": {"prometheusRule": {"enabled": True}},
    "prometheusRule.runbooks": {"prometheusRule": {"enabled": True}},
    "dashboard.labels.grafana_dashboard": {"dashboard": {"enabled": True}},
    "networkPolicy.egress": {"networkPolicy": {"restrictEgress": True}},
}


def leaves(values: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value, with its path; an empty map is one."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*above, key))
        else:
            yield (*above, key), value


def other(path: Path, value: Any) -> Any:
    """Another value than this one."""
    if (name := ".".join(path)) in OTHER:
        return OTHER[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return _QUANTITIES[path[-1]]


def at(path: Path, value: Any) -> dict[str, Any]:
    """Values that say this one thing."""
    for key in reversed(path):
        value = {key: value}
    found: dict[str, Any] = value
    return found
