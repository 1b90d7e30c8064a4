"""The page that lists each reported fault with the tests that keep it fixed."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.shape import source

_CASE = re.compile(r"\bB\d{2,3}\b")
_HEAD = """# Cases

Faults people have met with tools of this kind, each turned into a test. A test names the faults
it keeps away in its docstring; this page is generated from there.

| Case | Tests |
|---|---|
"""


def render() -> str:
    """The page."""
    found: dict[str, list[str]] = {}
    for case, test in _named():
        found.setdefault(case, []).append(test)
    rows = (_row(case, found[case]) for case in sorted(found, key=_number))
    return _HEAD + "".join(rows)


def named_in(text: str) -> list[str]:
    """Ids of the cases a docstring names, each once, in order."""
    return sorted(set(_CASE.findall(text)), key=_number)


def _named() -> Iterator[tuple[str, str]]:
    for file in source.files("tests"):
        for function in file.functions():
            if function.node.name.startswith("test_"):
                for case in named_in(ast.get_docstring(function.node) or ""):
                    yield case, f"`{_short(file.path)}::{function.node.name}`"


def _row(case: str, tests: list[str]) -> str:
    return f"| {case} | {'<br>'.join(sorted(set(tests)))} |\n"


def _short(path: Path) -> str:
    return str(path.relative_to(source.ROOT / "tests"))


def _number(case: str) -> int:
    return int(case[1:])
