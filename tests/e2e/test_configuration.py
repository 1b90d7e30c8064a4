"""manent.yml at the door: what is wrong is said with its place, and nothing starts."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.rig.serve import Finished, Rig

pytestmark = pytest.mark.e2e


@pytest.fixture
def setup(tmp_path: Path, sqlite_url: str) -> Rig:
    """A configured folder in which nothing runs."""
    rig = Rig(tmp_path, sqlite_url)
    rig.write_config()
    return rig


def text(rig: Rig) -> str:
    return rig.config_file().read_text()


def refused(rig: Rig, *words: str, command: str = "check") -> Finished:
    """`check` (or `serve`) refuses with exit 2, every word, and what to do next."""
    told = rig.server_cli([command])
    assert told.returncode == 2, told.stderr
    assert "Traceback" not in told.stderr
    for word in words:
        assert word in told.stderr, told.stderr
    return told


def test_a_good_file_is_good(setup: Rig) -> None:
    told = setup.server_cli(["check"], check=True)
    assert "good" in told.stdout
    shown = setup.server_cli(["check", "--show", "shop/staging"], check=True)
    assert "manent.yml:" in shown.stdout


@pytest.mark.parametrize("command", ["check", "serve"])
def test_an_unknown_key_stops_everything(setup: Rig, command: str) -> None:
    """B116: full path, line, layer and the nearest valid key, all findings at once."""
    config = yaml.safe_load(text(setup))
    config["retention"] = {"keys_max_agee": "2160h"}
    config["approval"] = {"required": 2}
    config["recovery"]["drain_timeout"] = "1m"
    config["environments"]["staging"]["concurency"] = 2
    config["applications"]["shop"]["options"]["deply"] = ["./x"]
    config["applications"]["billing"]["environments"]["staging"]["tiemout"] = "1m"
    setup.config_file().write_text(yaml.safe_dump(config, sort_keys=False))
    lines = text(setup).splitlines()

    def place(key: str) -> str:
        (number,) = [n for n, line in enumerate(lines, 1) if f"{key}:" in line]
        return f"manent.yml:{number}"

    told = refused(
        setup,
        "retention.keys_max_agee", "keys_max_age", "approval", "recovery.drain_timeout",
        "environments.staging.concurency", "concurrency", "deply", "tiemout", "timeout",
        command=command,
    )  # fmt: skip
    for key in ("keys_max_agee", "approval", "concurency", "tiemout"):
        assert place(key) in told.stderr, told.stderr
    assert not (setup.folder / "manent.db").exists()


def test_an_unknown_variable_stops_serve(setup: Rig) -> None:
    """B116: MANENT_ names nobody reads, with the nearest that is read."""
    told = setup.server_cli(["serve"], environ={"MANENT_CONFG": "x"})
    assert told.returncode == 2
    assert "MANENT_CONFG" in told.stderr
    assert "MANENT_CONFIG" in told.stderr
    assert "next:" in told.stderr


NUMBERS = ("1.10", "72225e2", "012", "0x1F", "1e3", "true")
TEXTS = ("1_000", "2027-01-02", "12:30", "no", "1.2.3", "'1.10'")


def with_words(rig: Rig, words: tuple[str, ...]) -> dict[str, int]:
    """Write an application that passes these words on, unquoted; the line of each."""
    config = yaml.safe_load(text(rig))
    del config["applications"]
    rig.config_file().write_text(yaml.safe_dump(config) + "applications:\n")
    for number, word in enumerate(words):
        options = f"options: {{deploy: [./x, {word}]}}"
        places = "environments: {staging: {targets: {host: {}}}}"
        line = f"  odd{number}: {{plugin: command, {options}, {places}}}\n"
        rig.config_file().write_text(text(rig) + line)
    lines = text(rig).splitlines()
    return {word: lines.index(li) + 1 for word in words for li in lines if f"./x, {word}]" in li}


def test_a_number_is_never_taken_for_text(setup: Rig) -> None:
    """B114: where text belongs an unquoted number is refused with its line; texts stay exact."""
    lines = with_words(setup, NUMBERS)
    told = refused(setup, "quote")
    for scalar, line in lines.items():
        assert f"manent.yml:{line}" in told.stderr, (scalar, told.stderr)
    with_words(setup, TEXTS)
    setup.server_cli(["check"], check=True)
    shown = setup.server_cli(["check", "--show", "odd1/staging"], check=True)
    assert "2027-01-02" in shown.stdout


def test_references_nobody_could_resolve_are_refused_at_load(setup: Rig) -> None:
    for wrong, word in (
        ("secret://vault/token", "no secret store"),
        ("secret://env/", "secret://env/NAME"),
        ("config://token", "no source of configuration"),
    ):
        config = yaml.safe_load(text(setup))
        config["applications"]["shop"]["options"]["environment"] = {"TOKEN": wrong}
        setup.config_file().write_text(yaml.safe_dump(config, sort_keys=False))
        refused(setup, word, "manent.yml:")


def test_versions_are_text_at_every_door(setup: Rig) -> None:
    """B114: an executor's name that looks like a number is text or an error, not another."""
    config = yaml.safe_load(text(setup))
    config["executor_id"] = None
    written = yaml.safe_dump(config).replace("executor_id: null", "executor_id: 1.10")
    setup.config_file().write_text(written)
    refused(setup, "executor_id", "quote")


def test_only_braced_names_are_expanded(setup: Rig) -> None:
    """B118: a bare $ stays; ${MISSING} is an error with its place and says how to escape."""
    config = yaml.safe_load(text(setup))
    hook = ["./x", "pa$USER#w{{x}}%@/:", "$${{HOME}}", "$$", "$", "${GIVEN}", "$HOME"]
    config["applications"]["shop"]["options"]["deploy"] = hook
    setup.config_file().write_text(yaml.safe_dump(config, sort_keys=False))
    given = setup.server_cli(["check"], environ={"GIVEN": "a$USER$$b", "USER": "me"})
    assert given.returncode == 0, given.stderr
    refused(setup, "GIVEN", "manent.yml:", "$$")


def test_a_password_is_safe_inside_the_database_address(setup: Rig) -> None:
    """B118, B108: taken literally; where it is wrong the error never shows it."""
    password = "pa$USER#w{x}%@/:"  # noqa: S105 - made up
    config = yaml.safe_load(text(setup))
    config["database"] = {"url": "HERE"}
    places = ["url: ${ADDRESS}", "url: postgresql://manent:${SECRET}@127.0.0.1:1/x"]
    address = f"postgresql://manent:{password}@127.0.0.1:1/x"
    asked = []
    for number, place in enumerate(places):
        file = setup.folder / f"manent-{number}.yml"
        file.write_text(yaml.safe_dump(config).replace("url: HERE", place))
        known = {"SECRET": password, "USER": "expanded", "ADDRESS": address}
        asked += [(word, known | {"MANENT_CONFIG": str(file)}) for word in ("check", "migrate")]
    # Side by side: a migration waits a while for its database.
    with ThreadPoolExecutor(len(asked)) as pool:
        ends = pool.map(lambda a: setup.server_cli([a[0]], environ=a[1], limit=60), asked)
        found = list(zip(asked, ends, strict=True))
    for (word, _), told in found:
        assert word == "check" or told.returncode != 0
        said = told.stdout + told.stderr
        assert "Traceback" not in said
        assert "w{x}" not in said
        assert "expanded" not in said


def test_a_file_that_cannot_be_read_says_so(setup: Rig) -> None:
    broken = {
        "duplicate key": "server: {listen: '127.0.0.1:1'}\nserver: {}\n",
        "no YAML": "server: [\n",
        "bad duration": "recovery: {heartbeat_interval: 15}\n",
    }
    for what, content in broken.items():
        setup.config_file().write_text(content)
        told = setup.server_cli(["check"])
        assert told.returncode == 2, what
        assert "manent.yml" in told.stderr, (what, told.stderr)
        assert "Traceback" not in told.stderr, what
    setup.config_file().unlink()
    refused(setup, "manent.yml", "next:")


def test_times_that_contradict_each_other_are_refused_together(setup: Rig) -> None:
    """B26: both keys are named."""
    config = yaml.safe_load(text(setup))
    config["recovery"] = {"heartbeat_interval": "30s", "stale_after": "30s"}
    setup.config_file().write_text(yaml.safe_dump(config))
    refused(setup, "heartbeat_interval", "stale_after", command="serve")
    config["recovery"] = {"auto_recover_after": "15s"}
    setup.config_file().write_text(yaml.safe_dump(config))
    refused(setup, "recovery.auto_recover_after", "recovery.stale_after")


def test_a_name_defined_in_two_files_is_refused_with_both_places(setup: Rig) -> None:
    config = yaml.safe_load(text(setup))
    config["include"] = ["more/*.yml"]
    setup.config_file().write_text(yaml.safe_dump(config))
    (setup.folder / "more").mkdir()
    again = {"applications": {"shop": config["applications"]["shop"]}}
    (setup.folder / "more" / "a.yml").write_text(json.dumps(again))
    refused(setup, "a.yml", "manent.yml", "shop")
