import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from manent_server.plugins.host import Host, discover
from manent_server.sdk.conformance import Trial, check

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
NODE = shutil.which("node") or "node"
PYTHON = str(getattr(sys, "_base_executable", sys.executable))
EXTERNAL = {
    "page": [NODE, str(EXAMPLES / "page.mjs")],
    "announce": [PYTHON, str(EXAMPLES / "announce.py")],
}


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with Trial(tmp_path / "trial", EXTERNAL) as trial:
        yield trial


@pytest.fixture(scope="module")
def host() -> Host:
    return discover(EXTERNAL)


def test_both_describe_themselves(host: Host) -> None:
    page, announce = host.plugin("page"), host.plugin("announce")
    assert page.hooks == {"deploy", "rollback", "verify", "observe"}
    assert page.templates == {"path", "text"}
    assert (page.effects, announce.effects) == ("idempotent", "once")
    assert page.is_external
    assert announce.is_external


@pytest.mark.parametrize("name", ["page", "announce"])
def test_their_options_are_checked_at_load(host: Host, name: str) -> None:
    key = {"page": "path", "announce": "file"}[name]
    assert host.check_options(name, {key: "/srv/x"}) == []
    assert host.check_options(name, {}) == [(key, "is required")]
    assert [path for path, _ in host.check_options(name, {key: "/x", "txt": "a"})] == ["txt"]
    assert [path for path, _ in host.check_options(name, {key: "relative"})] == [key]


def test_the_page_plugin_keeps_the_rules_of_a_target(trial: Trial, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    check(trial, "page", options={"path": str(page)}, state=page.read_text)


def test_the_page_plugin_refuses_a_lower_epoch(trial: Trial, tmp_path: Path) -> None:
    given = {"options": {"path": str(tmp_path / "page.html"), "text": "hello"}}
    first = trial.run("page", "deploy", version="v2", epoch=9, **given)
    assert first.result == "succeeded"
    assert first.lines == ["published v2, from nothing, for first"]
    late = trial.run("page", "deploy", version="v1", epoch=8, **given)
    assert late.error is not None
    assert (late.result, late.error["code"]) == ("failed", "epoch_outdated")
    seen = trial.run("page", "observe", version="v2", epoch=9, **given)
    assert seen.outputs == {"version": "v2", "in_place": True}


def test_a_page_that_cannot_be_written_is_a_failure_in_words(trial: Trial) -> None:
    ended = trial.run("page", "deploy", options={"path": "/proc/no/page"})
    assert ended.error is not None
    assert ended.result == "failed"
    assert "/proc/no/page" in ended.error["message"]


def test_an_announcement_is_made_once_and_known_again(trial: Trial, tmp_path: Path) -> None:
    file = tmp_path / "news.txt"
    given = {"options": {"file": str(file)}, "version": "v1"}
    before = trial.run("announce", "observe", **given)
    assert before.outputs == {"version": None, "in_place": False}
    ended = trial.run("announce", "deploy", **given)
    assert ended.outputs == {"announced": "shop v1 is out"}
    assert ended.lines == ["announced: shop v1 is out"]
    after = trial.run("announce", "observe", **given)
    assert after.outputs == {"version": "v1", "in_place": True}
    other = trial.run("announce", "observe", **{**given, "idempotency_key": "another"})
    assert other.outputs == {"version": "v1", "in_place": False}
    assert file.read_text() == "shop v1 is out [v1 first]\n"


def test_an_announcement_that_would_break_the_file_fails_for_good(
    trial: Trial, tmp_path: Path
) -> None:
    given = {"options": {"file": str(tmp_path / "news.txt"), "text": "a\nb"}}
    ended = trial.run("announce", "deploy", **given)
    assert ended.result == "failed"
    assert not (tmp_path / "news.txt").exists()
