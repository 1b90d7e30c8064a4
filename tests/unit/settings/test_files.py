"""Several files are one configuration, each name in one place."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from manent_server.settings import files
from tests.unit.settings.conftest import BASE, Errors, Load

SHOP = "applications: {%s: {plugin: p, environments: {staging: {targets: {a: {}}}}}}"


def test_patterns_are_read_in_name_order(load: Load, tmp_path: Path) -> None:
    found = load(
        {
            "manent.yml": "include: [apps/*.yml]\n" + BASE,
            "apps/b.yml": SHOP % "second",
            "apps/a.yml": SHOP % "first",
            "apps/c.yaml": SHOP % "never",
        }
    )
    assert list(found.applications) == ["first", "second"]
    assert [path.relative_to(tmp_path).as_posix() for path in found.files] == [
        "manent.yml",
        "apps/a.yml",
        "apps/b.yml",
    ]


def test_a_file_named_twice_is_read_once_and_the_first_never_again(load: Load) -> None:
    two = {"manent.yml": "include: ['*.yml', a.yml]\n" + BASE, "a.yml": SHOP % "shop"}
    assert list(load(two).applications) == ["shop"]


def test_an_absolute_path_can_be_included(load: Load, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.yml").write_text(SHOP % "shop")
    text = f"include: ['{tmp_path}/more/*.yml']\n" + BASE
    assert list(load(text).applications) == ["shop"]


def test_sections_may_be_spread_but_no_name(errors: Errors) -> None:
    """Kind 12: a name defined twice is refused with both places."""
    [found] = errors(
        {
            "manent.yml": "include: [a.yml, b.yml]\n" + BASE,
            "a.yml": "# first\n" + SHOP % "shop",
            "b.yml": SHOP % "other" + "\n",
            "c.yml": "",
        }
        | {"b.yml": "\n\n" + SHOP % "shop"}
    )
    assert (found["file"], found["line"], found["path"]) == ("b.yml", 3, "applications.shop")
    assert found["message"].startswith("is defined twice; first at ")
    assert found["message"].endswith("a.yml:2")


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        ("server: {url: 'http://a'}", "server: {url: 'http://b'}", "server.url"),
        ("server: {log: {level: info}}", "server: {log: {format: json}}", "server.log"),
        ("executor_id: a", "executor_id: b", "executor_id"),
        ("server: {}", "server: 3", "server"),
        (
            "plugins: {external: {a: {command: [a]}}}",
            "plugins: {external: {a: {command: [b]}}}",
            "plugins.external.a",
        ),
    ],
)
def test_a_key_in_two_files_is_refused(one: str, other: str, path: str, errors: Errors) -> None:
    """Kind 11: no file quietly wins over another."""
    found = errors({"manent.yml": "include: [a.yml]\n" + one, "a.yml": other})[0]
    assert (found["file"], found["path"]) == ("a.yml", path)
    assert "first at" in found["message"]


def test_sections_join_key_by_key(load: Load) -> None:
    found = load(
        {
            "manent.yml": "include: [a.yml]\nserver: {body_limit: 2MiB}\n"
            "plugins: {external: {a: {command: [a]}}}",
            "a.yml": "server: {listen: '[::1]:0'}\nplugins: {external: {b: {command: [b, c]}}}",
        }
    )
    assert (found.server.body_limit, found.server.listen) == (2 * 1024**2, "[::1]:0")
    assert found.plugins.external == {"a": ("a",), "b": ("b", "c")}


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("missing.yml", "matches no file"), ("apps/*.yml", "matches no file")],
)
def test_a_pattern_without_a_file_is_refused(pattern: str, message: str, errors: Errors) -> None:
    """Kind 11: a misspelt folder must not drop its applications."""
    [found] = errors(f"include: [{pattern}]")
    assert (found["path"], found["message"]) == ("include[0]", message)


def test_an_included_file_includes_no_other(errors: Errors) -> None:
    [found] = errors({"manent.yml": "include: [a.yml]", "a.yml": "include: []"})
    assert (found["file"], found["message"]) == (
        "a.yml",
        "only the first file can include others",
    )


def test_errors_of_all_files_come_together(errors: Errors) -> None:
    found = errors(
        {"manent.yml": "include: [a.yml, b.yml]\nx: [", "a.yml": "y: [", "b.yml": "server: 3"}
    )
    assert [error["file"] for error in found] == ["manent.yml"]
    found = errors({"manent.yml": "include: [a.yml, b.yml]\nq: 1", "a.yml": "y: [", "b.yml": "- 3"})
    assert [error["file"] for error in found] == ["a.yml", "b.yml"]


def test_extensions_are_ignored_in_every_file(load: Load) -> None:
    load(
        {
            "manent.yml": "include: [a.yml]\nx-one: &one {listen: '127.0.0.1:1'}\nserver: *one",
            "a.yml": "x-one: {anything: [012, {}]}\n" + BASE,
        }
    )


def test_an_extension_key_deeper_down_is_unknown(errors: Errors) -> None:
    [found] = errors("server: {x-mine: 1}")
    assert found["path"] == "server.x-mine"


def test_all_files_together_are_bounded(errors: Errors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_BYTES", 1000)
    more = {"a.yml": "#" * 500, "b.yml": "#" * 500}
    found = errors({"manent.yml": "include: [a.yml, b.yml]", **more})
    assert found[0]["file"] == "b.yml"
    assert found[0]["message"] == "all files together are larger than 1000 bytes"


def test_the_number_of_files_is_bounded(errors: Errors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_FILES", 1)
    found = errors({"manent.yml": "include: ['?.yml']", "a.yml": "", "b.yml": ""})
    assert found[0]["message"] == "names more than 1 files"


@pytest.mark.parametrize("item", ["3", "[a]", "'${MISSING}'"])
def test_a_pattern_that_is_no_text_is_refused(item: str, errors: Errors) -> None:
    [found] = errors(f"include: [{item}]")
    assert found["path"] == "include[0]"


def test_a_folder_or_a_broken_link_is_no_file(errors: Errors, tmp_path: Path) -> None:
    (tmp_path / "d.yml").mkdir()
    (tmp_path / "l.yml").symlink_to("nowhere")
    found = errors("include: [d.yml, l.yml]")
    assert [error["message"] for error in found] == ["matches no file"] * 2


def test_the_newest_change_of_any_file_counts(load: Load, tmp_path: Path) -> None:
    load({"manent.yml": "include: [a.yml]", "a.yml": BASE})
    os.utime(tmp_path / "manent.yml", (1000, 1000))
    os.utime(tmp_path / "a.yml", (2000, 2000))
    found = load({})
    assert found.modified_at == datetime.fromtimestamp(2000, UTC)


def test_relative_paths_begin_beside_the_first_file(load: Load, tmp_path: Path) -> None:
    found = load({"manent.yml": "include: [sub/a.yml]", "sub/a.yml": "worker: {workdir: w}"})
    assert found.worker.workdir == tmp_path / "w"
    assert found.database.url.reveal() == f"sqlite:///{tmp_path}/manent.db"
    tls = load("server: {tls: {certificate: c.pem, key: /k.pem}}").server.tls
    assert tls is not None
    assert (tls.certificate, tls.key) == (tmp_path / "c.pem", Path("/k.pem"))
