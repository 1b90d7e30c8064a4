"""The pages of the built-in targets say what the plugins do; their samples are run."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from manent_server.plugins.host import Host, discover
from manent_server.sdk.options import template_paths
from tests.plugins.runs import Hooks, hooks

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {name: DOCS / "reference" / "targets" / f"{name}.md" for name in ("command", "release")}


@pytest.fixture(scope="module")
def host() -> Host:
    return discover({})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooks]:
    with hooks(tmp_path_factory.mktemp("runner")) as started:
        yield started


def blocks(page: Path, language: str) -> list[tuple[str, str]]:
    """The code blocks of one language: their title and their text."""
    found = re.findall(r"```(\w+)([^\n]*)\n(.*?)```", page.read_text(), re.DOTALL)
    return [(info.strip(), text) for word, info, text in found if word == language]


def model(host: Host, name: str) -> Any:
    target = host.plugin(name).target
    assert target is not None
    assert target.model is not None
    return target.model


@pytest.mark.parametrize("name", PAGES)
def test_the_page_lists_every_option_with_its_default(host: Host, name: str) -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| (.+?) \|", PAGES[name].read_text(), re.MULTILINE)
    fields = model(host, name).model_fields
    assert [row for row, _ in rows] == list(fields)
    for option, default in rows:
        assert (default == "required") == fields[option].is_required(), option


@pytest.mark.parametrize("name", PAGES)
def test_the_page_names_the_options_that_are_templates(host: Host, name: str) -> None:
    text = PAGES[name].read_text()
    sentence = next(line for line in text.splitlines() if line.startswith("`{application}`"))
    filled = template_paths(model(host, name))
    if "everywhere but" in sentence:
        assert set(model(host, name).model_fields) - filled == {"effects"}
    else:
        named = sentence.partition("filled in")[2]
        assert set(re.findall(r"`(\w+)`", named)) == filled


@pytest.mark.parametrize("name", PAGES)
def test_the_sample_configurations_of_the_page_are_accepted(host: Host, name: str) -> None:
    seen = 0
    for _, text in blocks(PAGES[name], "yaml"):
        written = yaml.safe_load(text)
        groups = written.get("target_groups", {})
        for application in written["applications"].values():
            assert application["plugin"] == name
            for environment in application["environments"].values():
                targets = environment["targets"]
                for own in (groups[targets] if isinstance(targets, str) else targets).values():
                    options = {**application["options"], **own}
                    assert host.check_options(name, options) == []
                    seen += 1
    assert seen


def test_the_sample_programs_of_the_command_page_work(run: Hooks, tmp_path: Path) -> None:
    for info, text in blocks(PAGES["command"], "sh"):
        title = re.search(r'title="(\w+)"', info)
        assert title is not None
        (tmp_path / title[1]).write_text(text)
        (tmp_path / title[1]).chmod(0o755)
    options = {
        "deploy": ["./deploy"],
        "verify": ["./verify"],
        "observe": ["./observe"],
        "directory": str(tmp_path),
    }
    first = run.call("command", "deploy", options)
    assert first.end.result == "succeeded"
    assert first.checkpoints[-1] == "3"  # the guard passes on the newest of several
    again = run.call("command", "deploy", options, checkpoint="2", attempt=2)
    assert again.lines("out") == ["copying piece 3 of v2 to web-1"]
    assert run.call("command", "verify", options).end.result == "succeeded"
    seen = run.call("command", "observe", options).end.outputs
    assert seen == {"version": "v2", "in_place": True}


def test_the_page_names_every_variable_a_program_gets(run: Hooks) -> None:
    ran = run.call("command", "deploy", {"deploy": ["env"]})
    given = {line.partition("=")[0] for line in ran.lines("out")}
    named = set(re.findall(r"`(MANENT_\w+|PATH|HOME|LANG)`", PAGES["command"].read_text()))
    assert given == named - {"MANENT_PROTOCOL_IN", "MANENT_PROTOCOL_OUT"}
