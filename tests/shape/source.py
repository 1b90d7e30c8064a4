"""The project's Python files, read once, as the shape tests measure them."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("manent_server", "manent_cli", "plugins/manent_plugins", "migrations/manent_migrations")
EVERYTHING = (*PRODUCT, "tests", "bench", "examples", "scripts")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Function:
    """One function as written."""

    file: "File"
    node: FunctionNode

    @property
    def where(self) -> str:
        """Path, line and name, as an editor opens them."""
        return f"{self.file.name}:{self.node.lineno} {self.node.name}"

    @property
    def length(self) -> int:
        """Lines from `def` to the last one, blank lines included, docstring not."""
        return (self.node.end_lineno or 0) - self.node.lineno + 1 - self._docstring_lines()

    @property
    def arguments(self) -> int:
        """Arguments a caller may give, `self` and `cls` not counted."""
        given = self.node.args
        names = [argument.arg for argument in (*given.posonlyargs, *given.args)]
        own = 1 if names[:1] in (["self"], ["cls"]) else 0
        return len(names) - own + len(given.kwonlyargs)

    def may(self, rule: str) -> bool:
        """Whether the code says, with a reason, that a rule does not hold here."""
        return any(
            re.search(rf"# (?:noqa|shape): (?:\w+, )*{rule}(?:, \w+)* - \S", line)
            for line in self.file.lines[self.node.lineno - 1 : self.node.body[0].lineno]
        )

    def _docstring_lines(self) -> int:
        first = self.node.body[0]
        if ast.get_docstring(self.node, clean=False) is None:
            return 0
        return (first.end_lineno or 0) - first.lineno + 1


@dataclass(frozen=True)
class File:
    """One Python file."""

    path: Path

    @property
    def name(self) -> str:
        """Path from the project's root."""
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        """What stands in it."""
        return self.path.read_text()

    @cached_property
    def lines(self) -> list[str]:
        """Its lines."""
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    def functions(self) -> Iterator[Function]:
        """Every function, nested ones too."""
        for node in ast.walk(self.tree):
            if isinstance(node, FunctionNode):
                yield Function(self, node)

    def imports(self) -> set[str]:
        """Top-level names of the modules it imports."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.add(str(node.module))
        return {name.partition(".")[0] for name in found}

    def module(self) -> str:
        """Its dotted name."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        packages = parts[1:] if parts[0] in ("plugins", "migrations") else parts
        return ".".join(packages).removesuffix(".__init__")


def files(*folders: str) -> list[File]:
    """Python files below these folders of the project (default: the product's)."""
    return [
        _file(path)
        for folder in folders or PRODUCT
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "__pycache__" not in path.parts
    ]


@cache
def _file(path: Path) -> File:
    return File(path)
