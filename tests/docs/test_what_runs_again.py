"""Every row of the page of what runs again names a test that exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import DOCS

PAGE = (DOCS / "explanation" / "what-runs-again.md").read_text()
ROWS = [
    line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| Event")
]


@cache
def names_in(path: str) -> frozenset[str]:
    file = Path(DOCS).parent / path
    tree = ast.parse(file.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_the_page_has_rows():
    assert len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS)
def test_every_row_names_its_test(row: str):
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(cells) == 4, row
    named = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", cells[3])
    assert named, cells[3]
    assert named[2] in names_in(named[1])
