"""The tutorial for plugin authors is true: its files are written, its commands typed."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS
from tests.rig.tutorial import Reader

PAGE = DOCS / "tutorials" / "write-a-plugin.md"
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXPORT = re.compile(r"^\$ export PYTHONPATH=\"\$PWD/(\w+)\"$", re.MULTILINE)

pytestmark = pytest.mark.e2e


class Author(Reader):
    """A reader whose terminals all know what one of them exported."""

    exported = ""

    def _environ(self) -> dict[str, str]:
        more = {"PYTHONPATH": self.exported} if self.exported else {}
        return {**super()._environ(), **more}

    def take(self, title: str, text: str) -> None:
        """Write a block with a title to the file it names, or follow it."""
        if title:
            path = self._here / title
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            return
        self.follow(f"```console\n{text}```\n")
        for folder in EXPORT.findall(text):
            self.exported = str(self._here / folder)


def test_the_tutorial_is_true(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    assert all(title or language == "console" for language, title, _ in blocks)
    with Author(tmp_path) as author:
        for _, title, text in blocks:
            author.take(title, text)
