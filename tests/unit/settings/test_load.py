"""What the whole gives: digest, reload, identity."""

import json
import os
import socket
from datetime import timedelta
from pathlib import Path

import pytest

from manent_server import settings
from manent_server.settings.checks import host_and_port
from manent_server.settings.reload import changed, is_outdated, reload
from tests.unit.settings.conftest import BASE, Errors, Load

SHOP = "applications: {shop: {plugin: p, environments: {staging: {targets: {a: {}, b: {}}}}}}\n"


def test_the_executor_is_the_host_unless_named(load: Load) -> None:
    assert load("").executor_id == socket.gethostname()
    assert load("executor_id: worker-1").executor_id == "worker-1"
    assert load("executor_id: ${POD}", {"POD": "manent-worker-0"}).executor_id == "manent-worker-0"


def test_a_host_name_that_is_no_id_is_refused(
    errors: Errors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "a host")
    [found] = errors("")
    assert found["path"] == "executor_id"
    assert "the host name is no executor id" in found["message"]


def test_concurrency_is_filled_in(load: Load) -> None:
    text = """
environment_concurrency: 3
environments: {a: {tier: staging}, b: {tier: staging, concurrency: 2, rollback: manual}}
"""
    found = load(text).environments
    assert (found["a"].concurrency, found["b"].concurrency) == (3, 2)
    assert (found["a"].rollback, found["b"].rollback) == ("automatic", "manual")


def test_listeners_and_proxies_are_typed(load: Load) -> None:
    server = load(
        "server: {listen: '[::1]:0', metrics_listen: off, url: https://m.example/x/,"
        " trusted_proxies: [10.0.0.0/8, '::1', 192.168.1.1]}"
    ).server
    assert host_and_port(server.listen) == ("::1", 0)
    assert host_and_port("127.0.0.1:8420") == ("127.0.0.1", 8420)
    assert server.metrics_listen is None
    assert server.url == "https://m.example/x"
    assert server.trusted_proxies == ("10.0.0.0/8", "::1/128", "192.168.1.1/32")
    assert server.tls is None
    off = load("server: {metrics_listen: '${M}'}", {"M": "off"})
    assert off.server.metrics_listen is None


def test_the_digest_is_of_the_meaning(load: Load) -> None:
    """Spelling, order of sections, comments and this worker's own name do not count."""
    first = load(BASE + SHOP + "dbos: {drain_timeout: 2m}").digest
    for text in (
        SHOP + "# a comment\n" + BASE,
        BASE + SHOP + "executor_id: other",
        BASE + SHOP.replace("plugin: p,", "plugin: p, timeout: 600s,"),
    ):
        assert load(text).digest == first
    for text in (
        BASE + SHOP.replace("{a: {}, b: {}}", "{b: {}, a: {}}"),
        BASE + SHOP.replace("plugin: p,", "plugin: p, timeout: 601s,"),
        BASE + SHOP.replace("a: {}", "a: {n: 1}"),
        BASE,
    ):
        assert load(text).digest != first


def test_the_digest_is_the_same_in_every_folder(load: Load, tmp_path: Path) -> None:
    first = load(BASE + SHOP)
    other = tmp_path / "other"
    other.mkdir()
    (other / "manent.yml").write_text(BASE + SHOP)
    assert settings.load(other / "manent.yml", environ={}).digest == first.digest


def test_the_digest_knows_no_password(load: Load) -> None:
    """B108: it is stored and sent, so a guess must not be checked against it."""
    text = "database: {url: 'postgresql://u:${P}@db/m'}"
    assert load(text, {"P": "one"}).digest == load(text, {"P": "two"}).digest
    assert "hunter2" not in repr(load(text, {"P": "hunter2"}))


def test_a_reload_takes_up_what_it_may_and_names_the_rest(load: Load) -> None:
    running = load(BASE + SHOP + "worker: {concurrency: 3}\nexecutor_id: one")
    fresh = load(
        BASE + SHOP.replace("shop", "other") + "worker: {concurrency: 4}\nexecutor_id: two"
    )
    found, waiting = reload(running, fresh)
    assert list(found.applications) == ["other"]
    assert found.worker.concurrency == 3
    assert found.executor_id == "one"
    assert set(waiting) == {"worker", "executor_id"}
    assert found.digest not in {running.digest, fresh.digest}
    assert reload(running, running) == (running, ())


def test_a_reload_says_which_keys_have_changed(load: Load) -> None:
    running = load(BASE + SHOP + "worker: {concurrency: 3}")
    assert changed(running, load("# moved\n" + BASE + SHOP)) == ()
    # What waits for a restart is no part of it.
    fresh = load(BASE + SHOP.replace("a: {}", "a: {n: 1}") + "worker: {concurrency: 4}")
    assert changed(running, fresh) == ("applications",)


def test_files_that_were_changed_since_are_seen(load: Load) -> None:
    folder = load(BASE).path.parent / "conf.d"
    folder.mkdir()
    (folder / "more.yml").write_text("x-more: 1\n")
    running = load(BASE + "include: [conf.d/*.yml]\n")
    assert not is_outdated(running, environ={})
    (folder / "shop.yml").write_text(SHOP)
    os.utime(folder / "shop.yml", (0, 0))
    assert is_outdated(running, environ={}), "a further file, however old"
    (folder / "shop.yml").unlink()
    assert not is_outdated(running, environ={})
    os.utime(running.path, (2e9, 2e9))
    assert is_outdated(running, environ={})
    running.path.unlink()
    assert is_outdated(running, environ={}), "one that is gone"


def test_a_reload_leaves_the_default_of_concurrency(load: Load) -> None:
    text = "environments: {a: {tier: staging}, b: {tier: staging, concurrency: %d}}\n"
    running = load(text % 2 + "environment_concurrency: 3")
    found, waiting = reload(running, load(text % 5 + "environment_concurrency: 9"))
    assert [found.environments[name].concurrency for name in "ab"] == [3, 5]
    assert waiting == ("environment_concurrency",)


def test_options_are_plain_json(load: Load) -> None:
    text = BASE + SHOP.replace("a: {}", "a: {x: [1, {y: 1.5, z: null}], t: 'é'}")
    options = load(text).applications["shop"].environments["staging"].targets["a"]
    assert json.loads(json.dumps(options)) == options


def test_a_relative_configuration_path_works(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(BASE)
    monkeypatch.chdir(tmp_path)
    found = settings.load(Path("manent.yml"), environ={})
    assert found.worker.workdir == tmp_path / "work"
    assert found.worker.kill_grace == timedelta(seconds=10)
    assert found.path == Path("manent.yml")


def test_external_plugins_are_known_before_the_rest_is_checked(load: Load, tmp_path: Path) -> None:
    text = """
plugins:
  external:
    good: {command: ['${TOOL}', --fast]}
    bad: {comand: [x]}
    Worse: {command: [x]}
server: {lisen: x}
"""
    (tmp_path / "manent.yml").write_text(text)
    path = tmp_path / "manent.yml"
    found = settings.external_plugins(path, environ={"TOOL": "./tool"})
    assert found == {"good": ("./tool", "--fast")}
    assert settings.external_plugins(path, environ={}) == {}
    assert settings.external_plugins(tmp_path / "none.yml", environ={}) == {}
    path.write_text("[")
    assert settings.external_plugins(path, environ={}) == {}
