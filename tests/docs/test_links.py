"""Pages can be reached, links lead somewhere, and pages keep to their form."""

import re
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import DOCS

ROOT = DOCS.parent
PAGES = sorted(DOCS.rglob("*.md"))
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
ADR_PARTS = ["Context", "Decision", "Consequences", "Alternatives", "What would reopen it"]
ADRS = sorted((DOCS / "adr").glob("*.md"))


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, whatever tags an extension's options carry."""


def navigation(entries: list) -> list[str]:
    found = []
    for entry in entries:
        values = entry.values() if isinstance(entry, dict) else [entry]
        for value in values:
            found.extend(navigation(value) if isinstance(value, list) else [value])
    return found


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in headings)
    return {re.sub(r"\s+", "-", heading) for heading in plain}


def links(path: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", text)


def test_every_page_is_in_the_navigation_once():
    listed = navigation(yaml.load((DOCS / "mkdocs.yml").read_text(), _Loader)["nav"])  # noqa: S506 - a safe loader
    pages = [str(page.relative_to(DOCS)) for page in PAGES if "changelog.d" not in page.parts]
    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize("page", [*PAGES, *TOP], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_within_the_project_leads_somewhere(page):
    broken = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_page_has_one_title(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    is_fragment = "changelog.d" in page.parts and page.name != "README.md"
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == (0 if is_fragment else 1)


@pytest.mark.parametrize("page", ADRS, ids=lambda page: page.stem)
def test_a_decision_keeps_its_form_and_fits_a_screen(page):
    text = page.read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ADR_PARTS
    assert text.startswith(f"# {int(page.stem[:4])}. ")
    assert len(text.splitlines()) <= 60


def test_decisions_are_numbered_without_gaps():
    assert [int(page.stem[:4]) for page in ADRS] == list(range(1, len(ADRS) + 1))


def test_fragments_of_the_changelog_have_a_kind():
    kinds = {"added", "changed", "fixed", "removed", "security"}
    fragments = [path for path in (DOCS / "changelog.d").iterdir() if path.name != "README.md"]
    assert all(path.suffixes[-1:] == [".md"] for path in fragments)
    assert all(path.suffixes[-2].lstrip(".") in kinds for path in fragments)
