"""Asking targets what runs there while nothing may begin: the hook `observe` alone, bounded."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from manent_server.engine import observing
from manent_server.engine.observing import Limits, Observer
from manent_server.observability.redaction import Redactor
from manent_server.plugins.host import discover
from manent_server.plugins.runner import Runner
from manent_server.sources.secrets import Secrets
from manent_server.usecases import review
from manent_server.usecases.requests import RestoreLook
from tests.integration.core.restoring import gone_back, guard
from tests.rig.core import ADMIN, Core

PYTHON = str(getattr(sys, "_base_executable", sys.executable))
TOKEN = "hidden-value"  # noqa: S105 - a planted one
LOOK = RestoreLook(observes=True)


def program(code: str, **more: Any) -> dict[str, Any]:
    return {"deploy": ["false"], "observe": [PYTHON, "-S", "-E", "-c", code], **more}


def says(text: str, **more: Any) -> dict[str, Any]:
    return program(f"print('{text}')".replace("{", "{{").replace("}", "}}"), **more)


TARGETS: Mapping[str, Mapping[str, Any]] = {
    "new": says('{"version": "1", "in_place": true}'),
    "old": says('{"version": "0", "in_place": false}'),
    "silent": {"deploy": ["false"]},
    "fails": program("import sys; sys.exit(3)"),
    "tells": program(
        "import os; print('{{\"version\": \"' + os.environ['TOKEN'] + '\", \"in_place\": null}}')",
        environment={"TOKEN": "secret://env/TOKEN"},
    ),
    "odd": program("print('{nobody fills this in}')"),
    "lacks": says("{}", environment={"TOKEN": "secret://env/ABSENT"}),
}
HANGS = program("import time; time.sleep(60)")


def observer(folder: Path, **limits: timedelta) -> Observer:
    def runner(state: Path) -> Runner:
        return Runner(external={}, state_dir=state, warm=1, processes=8, line_limit=1000)

    # Eight at once: on a busy machine each takes long to begin.
    chosen = Limits(**{"each": timedelta(seconds=40), "all": timedelta(seconds=60), **limits})
    return Observer(discover({}), Secrets({"TOKEN": TOKEN}, folder), Redactor([]), runner, chosen)


def on(core: Core, deploy: str, targets: Mapping[str, Any], plugin: str = "command") -> str:
    """A deploy as if its order had named these targets."""
    body = {**core.deploy(deploy).order_body, "plugin": plugin}
    core.set(deploy, order_body=body | {"targets": dict(targets), "waves": [list(targets)]})
    return deploy


def fence(core: Core) -> None:
    assert not guard(core, gone_back(core)).look()


def look(core: Core, request: RestoreLook = LOOK, **more: Any) -> Any:
    return review.review(replace(core.desk, **more), request, caller=ADMIN)


def seen(found: Any, deploy: str) -> dict[str, tuple[Any, ...]]:
    [item] = [one for one in found["items"] if one["id"] == deploy]
    words = ("version", "in_place", "why")
    return {one["target"]: tuple(one[word] for word in words) for one in item["observed"]}


def test_every_target_of_what_is_live_is_asked_and_nothing_else_runs(
    sqlite_core: Core, tmp_path: Path
) -> None:
    """B139: the list says what `observe` says, or why it says nothing, each within its time."""
    core = sqlite_core
    ran = on(core, core.submit("shop"), TARGETS)
    deaf = on(core, core.submit("mail"), {"web": {}}, plugin="fake")
    fence(core)
    before = {name: core.rows(name) for name in ("deploys", "steps", "attempts", "logs", "audit")}
    found = look(core, observer=observer(tmp_path))
    assert found["observing"] == "asked"
    answers = seen(found, ran)
    assert answers["new"] == ("1", True, None)
    assert answers["old"] == ("0", False, None)
    assert answers["silent"] == (None, None, "its plugin cannot tell")
    assert answers["fails"][2].startswith("observe failed: ")
    assert TOKEN not in str(found)
    assert answers["tells"][2] is None
    assert answers["odd"][2] == "cannot be asked: ValueError"
    assert "secret://env/ABSENT" in answers["lacks"][2]
    assert "no plugin fake" in seen(found, deaf)["web"][2]
    assert {name: core.rows(name) for name in before} == before


def test_a_target_that_hangs_is_left(sqlite_core: Core, tmp_path: Path) -> None:
    core = sqlite_core
    deploy = on(core, core.submit("shop"), {"web": HANGS})
    fence(core)
    found = look(core, observer=observer(tmp_path, each=timedelta(seconds=1)))
    assert seen(found, deploy) == {"web": (None, None, "observe gave no answer within 1 s")}


def test_what_one_list_cannot_ask_it_says(
    sqlite_core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = sqlite_core
    monkeypatch.setattr(observing, "MOST", 2)
    one = on(core, core.submit("shop"), {f"web-{n}": HANGS for n in range(3)})
    other = on(core, core.submit("mail"), {"web": TARGETS["new"]})
    fence(core)
    busy = observer(tmp_path, all=timedelta(0))
    answers = seen(look(core, observer=busy), one)
    assert ["the time" in answers[f"web-{n}"][2] for n in range(3)] == [True, True, False]
    assert "name this deploy" in answers["web-2"][2]
    alone = RestoreLook((other,), observes=True)
    found = look(core, alone, observer=observer(tmp_path))
    assert [item["id"] for item in found["items"]] == [other]
    assert found["undecided"] == 2
    assert seen(found, other) == {"web": ("1", True, None)}


def test_who_cannot_ask_is_told_why(sqlite_core: Core, tmp_path: Path) -> None:
    core = sqlite_core
    core.submit("shop")
    fence(core)
    assert look(core, RestoreLook())["observing"] == "not asked for"
    assert "no worker" in look(core)["observing"]
    someone = observer(tmp_path)
    with someone._alone:
        found = look(core, observer=someone)
    assert "ask again" in found["observing"]
    assert found["items"][0]["observed"] is None
