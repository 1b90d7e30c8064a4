"""Names that say nothing, and the one word for the one thing."""

import ast
import re

from tests.shape import source

# (`service` is not among them: here it is the running thing that a deploy leaves behind.)
EMPTY_WORDS = {"utils", "util", "helpers", "common", "base", "manager", "handler"}
# Identifiers say `deploy`: `deployment` is a word of Kubernetes.
SYNONYM = re.compile(r"deployment", re.IGNORECASE)


def identifiers(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
    return found


def test_no_module_has_a_name_that_says_nothing():
    modules = [file.module().rpartition(".")[2] for file in source.files(*source.EVERYTHING)]
    assert not EMPTY_WORDS & set(modules)


def test_identifiers_say_deploy():
    assert not [
        f"{file.name}: {name}"
        for file in source.files()
        if "kubernetes" not in file.name
        for name in sorted(identifiers(file.tree))
        if SYNONYM.search(name)
    ]
