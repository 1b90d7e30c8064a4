"""The page of limits names every cap with its key, its default and what happens beyond it."""

import json
import re
from pathlib import Path
from typing import Any

from manent_server.api import body, fields
from manent_server.api.stream import Watching
from manent_server.domain import dora, tally
from manent_server.engine import logbook, observing
from manent_server.plugins import protocol
from manent_server.settings import document
from manent_server.usecases import dora as figures
from manent_server.usecases import inspect, publish, refuse, timetable

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/limits.md").read_text()
KEYS = (ROOT / "docs/reference/manent-yml.md").read_text()
# What such a key is called; `file_limit` and `rates.public` are caps as well.
_CAP = re.compile(r"_limit$|max_|concurrency$|hook_processes$|rates\.|attempts$")
_ROW = re.compile(r"^\| ([a-z_.<>&;]+) \| [^|]+ \| `([^`]*)` \|", re.MULTILINE)
_SOURCE = "\n".join(path.read_text() for path in (ROOT / "manent_server").rglob("*.py"))


def caps() -> dict[str, str]:
    """Every cap of manent.yml with its default; of tables of tables the last part alone."""
    rows = {key.replace("&lt;", "<").replace("&gt;", ">"): kept for key, kept in _ROW.findall(KEYS)}
    return {key: kept for key, kept in rows.items() if _CAP.search(key)}


def table() -> dict[str, str]:
    """What the page says of each key."""
    found = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 4:
            found |= dict.fromkeys(re.findall(r"`([^`]+)`", cells[1]), cells[2])
    return found


def test_every_cap_stands_on_the_page_with_its_default() -> None:
    found, known = table(), caps()
    assert len(known) > 15
    # An environment's own number is that of all unless it is given.
    known["environments.<environment>.concurrency"] = found["environment_concurrency"]
    assert {key: found.get(key) for key in known} == known


def test_no_key_on_the_page_is_made_up() -> None:
    rows = {key.replace("&lt;", "<").replace("&gt;", ">") for key, _ in _ROW.findall(KEYS)}
    assert set(table()) - rows == set()


def test_every_code_on_the_page_is_one_the_server_gives() -> None:
    part = PAGE[PAGE.index("## Caps") : PAGE.index("## Schedules")]
    codes = re.findall(r"(?:4|5)\d\d `([a-z_]+)`", part)
    assert len(codes) > 8
    assert [code for code in codes if f'"{code}"' not in _SOURCE] == []


def test_caps_without_a_key_are_as_the_page_says() -> None:
    assert (body.MAX_DEPTH, document.MAX_DEPTH) == (32, 32)
    assert (inspect.LONGEST_PAGE, _most(fields.LogLimit)) == (500, 5000)
    assert Watching.most == 1000
    assert (figures.MOST, dora.LONGEST.days) == (50_000, 731)
    assert (protocol.OUTPUT_LIMIT, protocol.MESSAGE_LIMIT) == (64 * 1024, 1024**2)
    assert (document.MAX_BYTES, document.MAX_NODES) == (1024**2, 100_000)
    assert (inspect.LONGEST_QUEUE, timetable.MOST, observing.MOST) == (100, 100, 100)
    assert (refuse.EACH, refuse.ALL, tally.MOST_ENVIRONMENTS) == (10, 120, 20)
    assert logbook.MOST_WAITING == 32 * 1024**2
    assert (publish.KEPT.days, publish.OWED.days) == (7, 30)


def test_caps_of_bodies_are_as_the_page_says() -> None:
    """By the schema that is published: a list or a text that gets another cap needs a line here."""
    schemas = json.loads((ROOT / "docs/reference/openapi.json").read_text())["components"][
        "schemas"
    ]
    lists = {
        (field, known["maxItems"])
        for schema in schemas.values()
        for field, shape in schema.get("properties", {}).items()
        for known in (shape, *shape.get("anyOf", ()))
        if "maxItems" in known
    }
    assert lists == {
        ("changes", 500), ("targets", 1000), ("override", 20), ("groups", 50),
        ("applications", 50), ("environments", 50), ("deploys", 1000),
    }  # fmt: skip
    change, deploy, decision = (schemas[name] for name in ("Change", "DeployBody", "DecisionBody"))
    assert change["properties"]["author"]["maxLength"] == 200
    assert _longest(deploy["properties"]["reason"]) == 2000
    assert _longest(decision["properties"]["comment"]) == 2000
    assert _longest(schemas["Links-Input"]["properties"]["ci"]) == 2000


def _longest(shape: dict[str, Any]) -> int:
    return max(known.get("maxLength", 0) for known in (shape, *shape.get("anyOf", ())))


def _most(field: object) -> int:
    limits = [getattr(one, "le", None) for part in _metadata(field) for one in part]
    return max(limit for limit in limits if limit is not None)


def _metadata(field: object) -> list[list[object]]:
    return [list(getattr(one, "metadata", ())) for one in field.__metadata__]  # type: ignore[attr-defined]
