"""One declaration: loader, example, reference and starter cannot disagree."""

import re
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from manent_server import settings
from manent_server.settings import example, reference
from manent_server.settings.outline import declared
from manent_server.settings.schema import PLACEMENT, RELOADED, TOP
from manent_server.settings.starter import starter
from manent_server.settings.structures import REQUIRED, SECTION
from tests.unit.settings.conftest import Load

ROOT = Path(__file__).parents[3]
EVERY = list(declared(TOP.keys))


def test_the_example_file_is_what_the_declarations_say() -> None:
    """B116: `python -c "from manent_server.settings.example import render; ..."` renews it."""
    assert (ROOT / "manent.yml.example").read_text() == example.render()


def test_the_example_loads_and_changes_no_default(load: Load) -> None:
    """B116: what the example shows as a default is one."""
    shown, bare = load(example.render()), load("")
    for field in fields(settings.Settings):
        if field.compare and field.name not in {
            "environments",
            "applications",
            "digest",
            "modified_at",
        }:
            assert getattr(shown, field.name) == getattr(bare, field.name)
    production = shown.environments["production"]
    assert (production.concurrency, production.pool) == (1, "default")
    shop = shown.applications["shop"].environments["production"]
    plain = load(
        "environments: {e: {tier: staging}}\n"
        "applications: {a: {plugin: p, environments: {e: {targets: {x: {}}}}}}"
    )
    other = plain.applications["a"].environments["e"]
    for name in ("retry", "max_parallel", "soak", "timeout", "deadline"):
        assert getattr(shop, name) == getattr(other, name)


def test_every_accepted_key_is_in_the_example() -> None:
    """B116: with a comment where it is first shown."""
    text = example.render()
    missing = [
        item.path
        for item in EVERY
        if not re.search(rf"(^|[ {{]){re.escape(item.path[-1])}:( |$)", text, re.MULTILINE)
    ]
    assert missing == []


def test_every_accepted_key_is_in_the_reference() -> None:
    """B116: with type, default and meaning; the keys of layers in a table of their own."""
    page = reference.render()
    layered = [item.key for item in declared(PLACEMENT.keys)]
    for item in EVERY:
        path = ".".join(item.path).replace("<", "&lt;").replace(">", "&gt;")
        shown = item.path[-1] if item.key in layered else path
        assert re.search(rf"^(\| ([a-z_]+\.)?{re.escape(shown)} \||## {path}$)", page, re.MULTILINE)
        assert item.key.meaning


def test_every_default_is_of_its_keys_type(load: Load) -> None:
    """Kind 11: written out, a default is accepted and changes nothing."""
    digest = load("").digest
    for item in EVERY:
        is_named = any(part.startswith("<") for part in item.path)
        if item.key.default in {REQUIRED, SECTION} or is_named:
            continue
        sections = "".join(f"{{{part}: " for part in item.path)
        written = load(f"{sections}{item.key.default}{'}' * len(item.path)}")
        assert written.digest == digest


def test_every_top_level_key_lands_in_a_setting() -> None:
    """B116: no key is read and dropped; the three left out live on in applications."""
    names = {field.name for field in fields(settings.Settings)}
    assert {key.name for key in TOP.keys} - names == {"include", "target_groups", "templates"}
    assert set(RELOADED) <= {key.name for key in TOP.keys}


def test_the_starter_loads_and_its_hook_runs_in_plain_sh(load: Load) -> None:
    loaded = load(starter(Path("/tmp/it")), plugins=["command"])  # noqa: S108 - only named
    assert list(loaded.environments) == ["staging", "production"]
    assert loaded.database.shown == "sqlite:///manent.db"
    hello = loaded.applications["hello"].environments
    assert hello["production"].waves == (("here",), ("there",))
    for hook in ("deploy", "rollback"):
        command = hello["staging"].targets["here"][hook]
        environ = {"MANENT_ENVIRONMENT": "staging", "MANENT_VERSION": "v1", "PATH": "/usr/bin:/bin"}
        ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        assert "v1" in ran.stdout
        assert "staging" in ran.stdout


@pytest.mark.parametrize("name", ["/", "/srv/with \n newline: {", "/srv/ü"])
def test_the_starter_fits_any_folder(load: Load, name: str) -> None:
    assert load(starter(Path(name))).applications
