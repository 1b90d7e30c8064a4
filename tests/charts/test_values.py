"""Every value of the chart is known to its schema, does something, and gives valid objects."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.chart import CHART, HELMS, MINE, Helm, present
from tests.charts.values import BESIDE, OTHER, at, leaves, other
from tests.rig import tools
from tests.rig.serve import merged

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
LEAVES = dict(leaves(VALUES))
WORK = ("worker", "api", "migration")
SWITCHES = [path for path, value in LEAVES.items() if isinstance(value, bool)]
# Beside each other not all others can be: these decide over the rest.
EVERYTHING = merged(
    *(at(path, other(path, value)) for path, value in LEAVES.items() if path not in SWITCHES),
    {"serviceMonitor": {"enabled": True}, "networkPolicy": {"restrictEgress": True}},
    {"serviceAccount": {"token": True}},
    {"prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}},
)
LEAST = merged(MINE, *(at(path, False) for path in SWITCHES))  # noqa: FBT003 - a value of the chart


MAY_BE_NULL = {"pod.userID", "pod.priorityClassName", "worker.volume.storageClassName"}
# manent.yml has its own defaults, and maps have no keys that must be there.
PARTS_BY_NAME = ("settings.", "dashboard.labels.", *(f"{w}.resources." for w in WORK))


def test_lint_finds_nothing(each_helm: Helm) -> None:
    for values in (MINE, EVERYTHING, LEAST):
        ended = each_helm.run("lint", "--strict", str(CHART), values=values)
        assert ended.returncode == 0, ended.stdout
        assert "[WARNING]" not in ended.stdout


def test_every_value_counts(helm: Helm, tmp_path: Path) -> None:
    """Each alone changes what is rendered, and is one the schema knows."""
    cases: dict[str, dict[str, Any]] = {}
    for path, value in LEAVES.items():
        name = ".".join(path)
        beside = merged(MINE, BESIDE.get(name, {}))
        cases[f"{name} before"] = beside
        cases[f"{name} after"] = merged(beside, at(path, other(path, value)))
    found = helm.texts(cases, tmp_path / "all")
    dead = [path for path in LEAVES if _is_dead(found, ".".join(path))]
    assert dead == []


def _is_dead(found: Mapping[str, str], name: str) -> bool:
    before, after = found[f"{name} before"], found[f"{name} after"]
    assert "kind: StatefulSet" in before
    return before == after


def test_the_list_of_other_values_is_of_values_that_exist() -> None:
    assert {*OTHER, *BESIDE} <= {".".join(path) for path in LEAVES}


@pytest.mark.parametrize("release", ["1.25", "1.33"])
def test_what_is_rendered_is_valid(
    helm: Helm, validate: Callable[[str, str], None], release: str
) -> None:
    """By the schemas of Kubernetes, unknown fields refused."""
    capable = ("--kube-version", release)
    texts = [helm.text(values, *capable) for values in (MINE, EVERYTHING, LEAST)]
    without = [text.split("# Source: manent/templates/monitor.yaml")[0] for text in texts]
    assert len(without[1]) < len(texts[1])
    validate("\n---\n".join(without), release)


def test_both_releases_of_helm_render_the_same(tmp_path: Path, helm: Helm) -> None:
    older = Helm(present(lambda: tools.helm(HELMS[0])), tmp_path)
    for values in (MINE, EVERYTHING, LEAST):
        assert older.render(values) == helm.render(values)


_URL = {"database": {"url": "${DATABASE_URL}"}}
REFUSED = {
    "a value there is not": {"workers": {}},
    "a listener": {"settings": {"server": {"listen": "127.0.0.1:1"}}},
    "a work folder": {"settings": {"worker": {"workdir": "work"}}},
    "an include": {"settings": {"include": ["more.yml"]}},
    "one name for all": {"settings": {"executor_id": "w"}},
    "a file as database": {"settings": {"database": {"url": "sqlite:///manent.db"}}},
    "a password": {"settings": {"database": {"url": "postgresql://manent:hunter2@db/manent"}}},
    "a text for a number": {"worker": {"replicas": "two"}},
    "a variable of manent's": {"environment": [{"name": "MANENT_CONFIG", "value": "x"}]},
    "no drain": {"worker": {"terminationGracePeriodSeconds": 5}},
    "root": {"pod": {"userID": 0}},
    "no quantity": {"worker": {"volume": {"size": "big"}}},
    "no amount": {"worker": {"resources": {"limits": {"memory": "much"}}}},
    "a password that begins like a variable": {
        "settings": {"database": {"url": "postgresql://manent:$hunter2@db/manent"}}
    },
    "a password beside the address": {
        "settings": {"database": {"url": "postgresql://manent@db/manent?password=hunter2"}}
    },
    "a variable of the chart's": {"environment": [{"name": "HOME", "value": "/root"}]},
    "a volume of the chart's": {"volumes": [{"name": "work", "emptyDir": {}}]},
    "a mount over the chart's": {"volumeMounts": [{"name": "x", "mountPath": "/var/lib/manent"}]},
    "a label of the chart's": {"pod": {"labels": {"app.kubernetes.io/name": "other"}}},
    "the mark of the settings": {"pod": {"annotations": {"checksum/settings": "0"}}},
    "a name of no Service": {"fullnameOverride": "a.b"},
    "a token of a chat": {"settings": {**_URL, "chat": {"ops": {"token": "xoxb-" + 20 * "1"}}}},
    "a secret of a receiver": {"settings": {**_URL, "notify": {"ops": {"secret": ["x" * 20]}}}},
    "a number for a variable": {"environment": [{"name": "WORKERS", "value": 5}]},
    "two lines of an image": {"image": {"tag": "v1\nv2"}},
    "no repository": {"image": {"repository": 'a "b"'}},
    "a drain without a unit": {"settings": {**_URL, "dbos": {"drain_timeout": 300}}},
    "two lines before a path": {"prometheusRule": {"runbooks": "a\nb"}},
    "a token of the cluster by default": {"serviceAccount": {"token": None}},
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_schema_refuses(helm: Helm, what: str) -> None:
    ended = helm.run("template", "r", str(CHART), values={**MINE, **REFUSED[what]})
    assert ended.returncode != 0
    assert "schema" in ended.stderr


def test_secrets_may_be_named(helm: Helm) -> None:
    """By reference, or by a variable of a Secret."""
    chat = {"token": "secret://env/TOKEN", "signing_secret": ["${NEW}", "secret://file/old"]}
    settings = {"chat": {"ops": chat}, "notify": {"board": {"secret": "${BOARD}"}}}
    assert helm.render(merged(MINE, {"settings": settings}))


def test_null_takes_nothing_away_that_is_missed() -> None:
    """Kubernetes' own default is seldom what was meant: 30 seconds to drain, a mounted token."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    free = {".".join(path) for path in LEAVES if not _is_demanded(schema, path)}
    assert free == MAY_BE_NULL | {name for name in free if name.startswith(PARTS_BY_NAME)}


def _is_demanded(schema: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    place: Any = schema
    for key in path:
        if "$ref" in place:
            place = schema["definitions"][place["$ref"].rsplit("/", 1)[1]]
        if key not in place.get("required", ()):
            return False
        place = place["properties"][key]
    return True


ODD = {"fail": ("r", {"settings": {"dbos": {"drain_timeout": "5m30s"}}}, "must be 390 at least"),
       "beside requests": (
           "r", {"api": {"deployment": False, "preStopSeconds": 200}}, "must be 380 at least"),
       "late": ("r", {"api": {"preStopSeconds": 60}}, "must be 70 at least"),
       "digit": ("1a", {}, "set fullnameOverride"),
       "dot": ("a.b", {}, "set fullnameOverride")}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_what_no_schema_can_say_is_refused_in_words(helm: Helm, what: str) -> None:
    """B128: a drain longer than its pod may take; names no Service may have."""
    release, values, words = ODD[what]
    ended = helm.run("template", release, str(CHART), values=merged(MINE, values))
    assert ended.returncode != 0
    assert words in ended.stderr
