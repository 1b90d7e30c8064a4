"""A guarantee on a page names the test that proves it, and that test is there."""

import re

import pytest

from tests.docs.pages import DOCS
from tests.shape import source

_TEST = re.compile(r"`(?:tests/)?((?:[\w-]+/)*test_\w+\.py)::(test_\w+)`")
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if "reference" not in page.parts and _TEST.search(page.read_text())
)


@pytest.fixture(scope="module")
def known() -> set[tuple[str, str]]:
    """File below `tests` and name of every test."""
    return {
        (str(file.path.relative_to(source.ROOT / "tests")), function.node.name)
        for file in source.files("tests")
        for function in file.functions()
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tests_a_page_names_are_there(page, known):
    assert set(_TEST.findall(page.read_text())) - known == set()


def test_every_guarantee_of_the_recovery_page_names_one():
    text = (DOCS / "how-to/recover-a-lost-worker.md").read_text()
    rows = [line for line in text.split("| Guarantee | Test |")[1].splitlines() if "|" in line]
    assert len(rows) > 10
    assert [row for row in rows[1:] if not _TEST.search(row)] == []
