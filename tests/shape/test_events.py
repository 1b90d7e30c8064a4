"""Every deed that is told of is listed: the code is read for the names of deeds."""

import ast
import re
from pathlib import Path

from manent_server.domain import events

_MAKERS = {"Deed", "_deed", "_audit", "_record"}
_NAME = re.compile(r"[a-z]+\.[a-z_]+")
ROOT = Path(events.__file__).parents[1]


def _actions() -> set[str]:
    """The action of every deed that is made anywhere in the server."""
    found = set()
    for file in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in _MAKERS:
                found |= {
                    given.value
                    for given in node.args
                    if isinstance(given, ast.Constant) and _NAME.fullmatch(str(given.value))
                }
    return found


def test_every_deed_that_is_told_is_on_the_page():
    told = {action for action in _actions() if events.is_told(action)}
    assert len(told) > 8
    assert sorted(told - set(events.KINDS)) == []
