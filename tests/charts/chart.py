"""The chart, rendered by the real Helm."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rig import tools

CHART = Path(__file__).parents[2] / "charts" / "manent"
RELEASE = "manent"
HELMS = ("v32", "v37")
MINE: dict[str, Any] = {"secrets": ["manent"]}

Document = dict[str, Any]


class Helm:
    """One release of Helm, with a home of its own."""

    def __init__(self, program: Path, home: Path) -> None:
        self.program = program
        self.environ = {"PATH": os.defpath, "HOME": str(home)}
        self._home = home

    def run(
        self, *arguments: str, values: Mapping[str, Any] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run it; `values` become a file of values."""
        more: list[str] = []
        if values is not None:
            file = self._home / "values.yml"
            file.write_text(json.dumps(values))  # every text in quotes
            more = ["--values", str(file)]
        return subprocess.run(
            [self.program, *arguments, *more],
            env=self.environ, text=True, capture_output=True, timeout=100, check=False,
        )  # fmt: skip

    def text(self, values: Mapping[str, Any], *more: str) -> str:
        """What `helm template` makes of these values."""
        ended = self.run("template", RELEASE, str(CHART), *more, values=values)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def texts(self, cases: Mapping[str, Mapping[str, Any]], folder: Path) -> dict[str, str]:
        """What it makes of many sets of values, in one run: by a chart with one for each.

        A chart is called as its parent calls it: what it does with its own name is left out.
        """
        named = {f"case{number}": name for number, name in enumerate(cases)}
        (folder / "charts").mkdir(parents=True)
        shutil.copytree(CHART, folder / "charts" / "manent")
        needs = [{"name": "manent", "version": "0.1.0", "alias": alias} for alias in named]
        own = {"apiVersion": "v2", "name": "all", "version": "0.1.0", "dependencies": needs}
        (folder / "Chart.yaml").write_text(yaml.safe_dump(own))
        values = {alias: cases[name] for alias, name in named.items()}
        ended = self.run("template", RELEASE, str(folder), values=values)
        assert ended.returncode == 0, ended.stderr
        found = dict.fromkeys(cases, "")
        for part in ended.stdout.split("# Source: all/charts/")[1:]:
            alias = part.split("/", 1)[0]
            found[named[alias]] += re.sub(rf"\b{alias}\b", "manent", part)
        return found

    def render(self, values: Mapping[str, Any] | None = None, *more: str) -> list[Document]:
        """The objects of a rendering."""
        text = self.text(MINE if values is None else values, *more)
        return [found for found in yaml.safe_load_all(text) if found]


def present(find: Callable[[], Path]) -> Path:
    """A program, or a skip that says how to get it."""
    try:
        return find()
    except tools.Missing as missing:
        pytest.skip(str(missing))


def one(documents: list[Document], kind: str, component: str = "") -> Document:
    """The only object of its kind (and of a component)."""
    key = "app.kubernetes.io/component"
    (found,) = [
        document
        for document in documents
        if document["kind"] == kind
        and component in ("", document["metadata"]["labels"].get(key, ""))
    ]
    return found


def pods(documents: list[Document]) -> dict[str, Document]:
    """The template of each workload's pods, by the workload's kind."""
    return {
        document["kind"]: document["spec"]["template"]
        for document in documents
        if "template" in document.get("spec", {})
    }
