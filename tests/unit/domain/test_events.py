"""Which deeds are events."""

import ast
import re
from pathlib import Path

from manent_server.domain import events
from manent_server.domain.marks import Sort
from manent_server.domain.schedule import Result

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


def test_so_is_what_deeds_are_made_of():
    """Names that are put together: of each sort of mark, and of each end of an instant."""
    made = {f"{sort}.{verb}" for sort in Sort for verb in ("set", "lifted")}
    made |= {f"schedule.{result}" for result in Result}
    assert sorted(made - set(events.KINDS)) == []


def test_tokens_are_nobodys_business():
    assert not events.is_told("token.created")
    assert events.is_told("deploy.ended")
