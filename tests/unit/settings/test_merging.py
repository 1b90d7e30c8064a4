"""The merging order: later layers win, every error names its own."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from manent_server.settings import placement
from tests.unit.settings.conftest import Errors, Load

LAYERS = {
    "environments.e.defaults": "environments: {e: {tier: staging, defaults: {%s}}}",
    "templates.t": "templates: {t: {%s}}",
    "templates.t.environments.e": "templates: {t: {environments: {e: {%s}}}}",
    "applications.a": "applications: {a: {%s}}",
    "applications.a.environments.e": "applications: {a: {environments: {e: {%s}}}}",
}

TEXT = """
environments:
  e: {tier: staging, defaults: {%s}}
templates:
  t:
    environments: {e: {%s}}
    %s
applications:
  a:
    template: t
    environments: {e: {%s}}
    %s
"""
PLACES = [0, 2, 1, 4, 3]


def text(values: Sequence[str]) -> str:
    """The values lowest layer first; those of template and application in block style."""
    parts = [values[0], values[2], values[1], values[4], values[3]]
    return TEXT % tuple(parts)


@pytest.mark.parametrize("highest", range(5))
def test_the_highest_layer_that_has_a_value_wins(load: Load, highest: int) -> None:
    always = ["plugin: p, targets: {x: {}}", "", "", "", ""]
    values = [f"timeout: {layer + 1}m" if layer <= highest else "" for layer in range(5)]
    values[0] = ", ".join(filter(None, [always[0], values[0]]))
    found = load(text(values)).applications["a"].environments["e"]
    assert found.timeout == timedelta(minutes=highest + 1)


def test_maps_merge_and_lists_and_values_replace(load: Load) -> None:
    found = load(
        text(
            [
                "plugin: p, options: {a: {x: 1, y: 1}, l: [1, 2], s: {deep: 1}}",
                "options: {a: {y: 2, z: 2}, n: 2}",
                "options: {l: [3]}, targets: {one: {}, two: {a: {z: 9}, own: true}}",
                "options: {s: flat, n: {now: map}}",
                "options: {n: {more: 5}}",
            ]
        )
    )
    targets = found.applications["a"].environments["e"].targets
    merged = {
        "a": {"x": 1, "y": 2, "z": 2},
        "l": [3],
        "s": "flat",
        "n": {"now": "map", "more": 5},
    }
    assert targets["one"] == merged
    assert targets["two"] == merged | {"a": {"x": 1, "y": 2, "z": 9}, "own": True}


def test_sections_merge_key_by_key(load: Load) -> None:
    found = load(
        text(
            [
                "plugin: p, targets: {x: {}}, retry: {attempts: 5, cap: 2m}",
                "retry: {initial: 2s}\n    artifact: {url: 'https://h/{version}'}",
                "retry: {cap: 3m}",
                "artifact: {sha256: " + "ab" * 32 + "}",
                "",
            ]
        )
    )
    placement = found.applications["a"].environments["e"]
    assert placement.retry.attempts == 5
    assert placement.retry.initial == timedelta(seconds=2)
    assert placement.retry.cap == timedelta(minutes=3)
    assert placement.retry.total == timedelta(minutes=15)
    assert placement.artifact is not None
    assert (placement.artifact.url, placement.artifact.sha256) == ("https://h/{version}", "ab" * 32)


def test_null_takes_an_artifact_away(load: Load) -> None:
    found = load(
        text(
            ["plugin: p, targets: {x: {}}", "artifact: {url: 'https://h/'}", "", "", "artifact: ~"]
        )
    )
    assert found.applications["a"].environments["e"].artifact is None


def test_defaults_are_those_of_the_manual(load: Load) -> None:
    found = load(text(["plugin: p, targets: {x: {}}", "", "", "", ""]))
    placement = found.applications["a"].environments["e"]
    assert (placement.max_parallel, placement.soak) == (4, timedelta(0))
    assert (placement.timeout, placement.deadline) == (timedelta(minutes=10), timedelta(hours=1))
    assert placement.retry.attempts == 3
    assert (placement.retry.initial, placement.retry.factor) == (timedelta(seconds=1), 2.0)
    assert (placement.retry.cap, placement.retry.total) == (
        timedelta(minutes=1),
        timedelta(minutes=15),
    )


@pytest.mark.parametrize(
    ("layer", "key"),
    [(layer, key) for layer in LAYERS for key in ("timeout: 3", "max_parallel: x", "tiemout: 3s")],
)
def test_an_error_names_the_layer_it_came_from(layer: str, key: str, errors: Errors) -> None:
    """Kind 11: file, line, path and layer of what is wrong, not of where it showed."""
    values = ["plugin: p, targets: {x: {}}", "", "", "", ""]
    at = list(LAYERS).index(layer)
    values[at] = f"{values[at]}, {key}" if at == 0 else key
    [found] = errors(text(values))
    assert found["layer"] == layer
    assert found["path"] == f"{layer}.{key.partition(':')[0]}"
    assert found["line"] == [3, 7, 6, 12, 11][at]


def test_a_plugins_objection_is_put_at_the_value_it_is_about(errors: Errors) -> None:
    """An option error names line and layer of that option, once for all targets alike."""

    def check(plugin: str, options: Mapping[str, Any]) -> list[tuple[str, str]]:
        assert plugin == "p"
        found = [("health.url", "must be text"), ("list[1]", "too much")]
        return (
            [*found, ("nope", "unknown option; did you mean note?")] if "nope" in options else found
        )

    found = errors(
        text(
            [
                "plugin: p, targets: {x: {}, y: {nope: 1}}",
                "options: {health: {url: 7}}",
                "options: {list: [a, b]}",
                "",
                "",
            ]
        ),
        check_options=check,
    )
    assert [(error["line"], error["layer"], error["message"]) for error in found] == [
        (
            3,
            "environments.e.defaults",
            "option nope of plugin p: unknown option; did you mean note?; "
            "if text is meant, quote it",
        ),
        (6, "templates.t.environments.e", "option list[1] of plugin p: too much"),
        (
            7,
            "templates.t",
            "option health.url of plugin p: must be text; if text is meant, quote it",
        ),
    ]


def test_a_missing_option_is_put_at_the_target(errors: Errors) -> None:
    [found] = errors(
        text(["plugin: p, targets: {x: {}}", "", "", "", ""]),
        check_options=lambda *_: [("deploy", "is missing")],
    )
    assert (found["line"], found["path"]) == (3, "environments.e.defaults.targets.x")


def test_a_plugin_that_needs_an_artifact_is_refused_without_one(errors: Errors, load: Load) -> None:
    values = ["plugin: p, targets: {x: {}}", "", "", "", ""]
    [found] = errors(text(values), needs_artifact=["p"])
    assert found["path"] == "applications.a.environments.e.artifact"
    assert found["line"]
    assert found["message"] == "is missing: plugin p needs one; set artifact.url"
    load(text(values), needs_artifact=["q"])
    values[3] = 'artifact: {url: "file:///{version}"}'
    load(text(values), needs_artifact=["p"])


def test_an_unknown_plugin_is_refused_with_the_nearest(errors: Errors, load: Load) -> None:
    values = ["plugin: comand, targets: {x: {}}", "", "", "", ""]
    asked: list[str] = []

    def check(plugin: str, _: Mapping[str, Any]) -> list[tuple[str, str]]:
        asked.append(plugin)
        return []

    [found] = errors(text(values), plugins=["command", "release"], check_options=check)
    assert found["path"] == "environments.e.defaults.plugin"
    assert "did you mean command?" in found["message"]
    assert asked == []
    external = text(values) + "plugins: {external: {comand: {command: [x]}}}"
    load(external, plugins=["release"], check_options=check)
    assert asked == ["comand"]


def test_what_is_missing_after_merging_is_said(errors: Errors) -> None:
    found = errors(text(["", "", "", "", ""]))
    assert {error["path"] for error in found} == {"applications.a.environments.e"}
    assert [error["message"] for error in found] == [
        "the key plugin is missing",
        "the key targets is missing",
    ]


def test_an_application_is_where_it_or_its_template_says(load: Load, errors: Errors) -> None:
    common = """
environments: {a: {tier: staging}, b: {tier: staging}, c: {tier: production}}
templates: {t: {plugin: p, targets: {x: {}}, environments: {b: {}}}}
"""
    found = load(common + "applications: {shop: {template: t, environments: {c: {}}}}")
    assert list(found.applications["shop"].environments) == ["b", "c"]
    [error] = errors(common + "applications: {shop: {plugin: p, targets: {x: {}}}}")
    assert "is in no environment" in error["message"]


@pytest.mark.parametrize(
    ("values", "path", "hint"),
    [
        ("template: tt", "applications.a.template", "there is no template 'tt'; did you mean t?"),
        ("template: [t]", "applications.a.template", "must be text"),
        ("environments: {ee: {}}", "applications.a.environments.ee", "did you mean e?"),
    ],
)
def test_a_reference_to_nothing_is_refused(
    values: str, path: str, hint: str, errors: Errors
) -> None:
    common = "environments: {e: {tier: staging}}\ntemplates: {t: {plugin: p, targets: {x: {}}}}\n"
    found = errors(common + f"applications: {{a: {{{values}}}}}")
    assert [hint in error["message"] for error in found if error["path"] == path] == [True]


def test_merging_without_end_is_stopped(errors: Errors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "_MOST_VALUES", 1000)
    options = "{" + ", ".join(f"k{i}: 1" for i in range(100)) + "}"
    targets = "{" + ", ".join(f"t{i}: {{}}" for i in range(11)) + "}"
    found = errors(text([f"plugin: p, targets: {targets}", f"options: {options}", "", "", ""]))
    assert "together are over 1000 values" in found[0]["message"]
