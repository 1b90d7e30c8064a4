"""Nothing unknown, nothing dead, everything said at once."""

from datetime import timedelta
from pathlib import Path

import pytest

from manent_server.domain.errors import ConfigurationError
from tests.unit.settings.conftest import BASE, Errors, Load

SHOP = BASE + "applications: {shop: {plugin: p, environments: {staging: {targets: {a: {}}}}}}\n"


@pytest.mark.parametrize(
    ("text", "path", "hint"),
    [
        ("retention: {max_agee: 2160h}", "retention.max_agee", "did you mean max_age?"),
        ("servr: {}", "servr", "did you mean server?"),
        ("server: {lisen: x}", "server.lisen", "did you mean listen?"),
        ("server: {log: {levl: info}}", "server.log.levl", "did you mean level?"),
        ("server: {pool: 3}", "server.pool", "pool is a key of database, environments.<env"),
        ("drain_timeout: 2m", "drain_timeout", "drain_timeout is a key of dbos"),
        (
            BASE.replace("{tier: staging}", "{tier: staging, approval: []}"),
            "environments.staging.approval",
            "did you mean approvals?",
        ),
        (
            BASE.replace("{tier: staging}", "{tier: staging, teir: x}"),
            "environments.staging.teir",
            "did you mean tier?",
        ),
        (
            SHOP.replace("plugin: p,", "plugin: p, timeuot: 3s,"),
            "applications.shop.timeuot",
            "did you mean timeout?",
        ),
        (
            SHOP.replace("plugin: p,", "plugin: p, retry: {attemps: 3},"),
            "applications.shop.retry.attemps",
            "did you mean attempts?",
        ),
        ("secrets: {vault: {plugin: vault}}", "secrets.vault", "nothing is known here"),
        ("templates: {web: {template: other}}", "templates.web.template", "unknown key"),
    ],
)
def test_an_unknown_key_stops_and_names_the_nearest(
    text: str, path: str, hint: str, errors: Errors
) -> None:
    """B116: start refused with full path and nearest valid key."""
    [found] = errors(text)
    assert found["path"] == path
    assert "unknown key" in found["message"]
    assert hint in found["message"]


@pytest.mark.parametrize("key", ["export", "consul"])
def test_a_section_without_effect_is_unknown(key: str, errors: Errors) -> None:
    """B116: nothing is accepted that does nothing."""
    [found] = errors(f"{key}: {{}}")
    assert found["message"].startswith(f"unknown key '{key}'")


def test_a_threshold_of_two_beats_is_refused(errors: Errors) -> None:
    """B26: both keys are named."""
    [found] = errors("recovery: {heartbeat_interval: 30s, stale_after: 30s}")
    assert found["path"] == "recovery.stale_after"
    assert found["message"] == (
        "recovery.stale_after (30s) must be at least 3 x recovery.heartbeat_interval (30s)"
    )


def test_a_threshold_missed_by_the_default_is_refused_too(errors: Errors) -> None:
    """B26: 15s is the default of the other key."""
    [found] = errors("recovery: {stale_after: 44s}")
    assert "recovery.heartbeat_interval (15s)" in found["message"]
    [found] = errors("recovery: {heartbeat_interval: 21s}")
    assert "recovery.stale_after (1m)" in found["message"]


def test_three_beats_are_enough(load: Load) -> None:
    """B26: the border itself is fine."""
    found = load("recovery: {heartbeat_interval: 1s, stale_after: 3s}").recovery
    assert found.stale_after == 3 * found.heartbeat_interval


def test_automatic_recovery_before_a_worker_is_lost_is_refused(errors: Errors) -> None:
    """B26: both keys are named."""
    [found] = errors("recovery: {auto_recover_after: 59s}")
    assert found["path"] == "recovery.auto_recover_after"
    assert found["message"] == (
        "recovery.auto_recover_after (59s) must be at least recovery.stale_after (1m)"
    )


def test_automatic_recovery_that_leaves_no_lease_is_refused(errors: Errors) -> None:
    """B26: three heartbeats must fit into what is left of it."""
    [found] = errors("recovery: {heartbeat_interval: 1s, stale_after: 3s, auto_recover_after: 4s}")
    assert found["message"] == (
        "recovery.auto_recover_after (4s) leaves a lease of 2.5s, which must be at least "
        "3 x recovery.heartbeat_interval (1s)"
    )


@pytest.mark.parametrize(
    "text",
    [
        "recovery: {heartbeat_interval: 1s, stale_after: 3s, auto_recover_after: 4.5s}",
        "recovery: {auto_recover_after: 1m}",
        "recovery: {auto_recover_after: 0s, stale_after: 1h}",
    ],
)
def test_automatic_recovery_that_leaves_time_is_taken(load: Load, text: str) -> None:
    assert load(text).recovery.forget_after == timedelta(days=7)


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("server: 3", "server", "must be a map"),
        ("secrets: []", "secrets", "must be a map"),
        ("environments: []", "environments", "must be a map"),
        ("executor_id: {}", "executor_id", "must be text"),
        ("worker: {workdir: 3}", "worker.workdir", "quote it"),
        ("worker: {pools: default}", "worker.pools", "must be a list"),
        ("server:", "server", "must be a map, and here is nothing: write {} for an empty one"),
        ("server: {listen: localhost}", "server.listen", "must be HOST:PORT"),
        ("server: {listen: ':8420'}", "server.listen", "must be HOST:PORT"),
        ("server: {listen: 'a:99999'}", "server.listen", "must be HOST:PORT"),
        ("server: {metrics_listen: none}", "server.metrics_listen", "must be HOST:PORT"),
        ("server: {url: example.com}", "server.url", "must be a URL"),
        ("server: {url: 'http://u:p@h'}", "server.url", "must be a URL"),
        ("server: {trusted_proxies: 10.0.0.1}", "server.trusted_proxies", "must be a list"),
        ("server: {trusted_proxies: [10.0.0.1/8]}", "server.trusted_proxies[0]", "a network"),
        ("server: {tls: {key: a.pem}}", "server.tls.certificate", "go together"),
        ("server: {body_limit: 1MB}", "server.body_limit", "'1MB' is no size"),
        ("server: {body_limit: 1000}", "server.body_limit", "1000 is no size"),
        ("server: {body_limit: 0B}", "server.body_limit", "must be more than 0B"),
        ("server: {log: {level: inf}}", "server.log.level", "did you mean info?"),
        ("server: {log: {level: true}}", "server.log.level", "must be text, but true is"),
        ("executor_id: 'a b'", "executor_id", "must be letters"),
        ("executor_id: 'a:b'", "executor_id", "must be letters"),
        ("environment_concurrency: 0", "environment_concurrency", "whole number, 1 or more"),
        ("environment_concurrency: '2'", "environment_concurrency", "not '2'"),
        ("environment_concurrency: 1.5", "environment_concurrency", "not 1.5"),
        ("environment_concurrency: 02", "environment_concurrency", "not 02"),
        ("environment_concurrency: 99999999999999999999", "environment_concurrency", "whole"),
        ("worker: {warm: -1}", "worker.warm", "whole number, 0 or more"),
        ("worker: {pools: []}", "worker.pools", "must have at least 1"),
        ("worker: {pools: [a, a]}", "worker.pools", "names something twice"),
        ("worker: {pools: [A]}", "worker.pools[0]", "no valid pool"),
        ("worker: {workdir: ''}", "worker.workdir", "must be a path"),
        ("worker: {kill_grace: 10}", "worker.kill_grace", "has no unit; write 10s"),
        ("worker: {kill_grace: 0s}", "worker.kill_grace", "must be longer than 0s"),
        ("worker: {kill_grace: [1s]}", "worker.kill_grace", "not a list"),
        ("dbos: {drain_timeout: 2 m}", "dbos.drain_timeout", "is no duration"),
        ("dbos: {drain_timeout: -2m}", "dbos.drain_timeout", "is no duration"),
        ("dbos: {drain_timeout: 12:30}", "dbos.drain_timeout", "is no duration"),
        ("dbos: {drain_timeout: null}", "dbos.drain_timeout", "must be a duration"),
        ("logs: {tail: 50MiB}", "logs.tail", "must be less than logs.deploy_limit"),
        ("plugins: {external: {a: {}}}", "plugins.external.a", "the key command is missing"),
        ("plugins: {external: {a: {command: []}}}", "plugins.external.a.command", "at least 1"),
        ("plugins: {external: {a: {command: [1]}}}", "plugins.external.a.command[0]", "quote it"),
        ("plugins: {external: {a: {command: ['']}}}", "plugins.external.a.command[0]", "empty"),
        ("environments: {a: {}}", "environments.a", "the key tier is missing"),
        ("environments: {a: {tier: prod}}", "environments.a.tier", "staging, production, not"),
        ("include: a.yml", "include", "must be a list"),
        ("include: ['']", "include[0]", "must not be empty"),
    ],
)
def test_a_wrong_value_is_said_with_its_path(
    text: str, path: str, message: str, errors: Errors
) -> None:
    """Kind 11: strict types, units and words."""
    [found] = errors(text)
    assert (found["file"], found["line"], found["path"]) == ("manent.yml", 1, path)
    assert message in found["message"]


@pytest.mark.parametrize(
    ("keys", "path", "message"),
    [
        ("artifact: {}", "artifact", "the key url is missing"),
        ("artifact: {url: 'oci://r/i'}", "artifact.url", "oci artifacts are not in this release"),
        ("artifact: {url: 'ftp://r/i'}", "artifact.url", "file:///, http:// or https://"),
        ("artifact: {url: 'http://h/{versoin}'}", "artifact.url", "{versoin} is no placeholder"),
        ("artifact: {url: 'http://h/{'}", "artifact.url", "an open { is no placeholder"),
        ("artifact: {url: 'http://h', sha256: ab}", "artifact.sha256", "64 lower-case"),
        ("retry: {attempts: 0}", "retry.attempts", "whole number, 1 or more"),
        ("retry: {factor: 0.5}", "retry.factor", "number, 1 or more"),
        ("retry: {factor: .inf}", "retry.factor", "number, 1 or more"),
        ("retry: {factor: .nan}", "retry.factor", "number, 1 or more"),
        ("retry: {factor: 1e999}", "retry.factor", "number, 1 or more"),
        ("retry: {initial: 0s}", "retry.initial", "must be longer than 0s"),
        ("max_parallel: 0", "max_parallel", "whole number, 1 or more"),
        ("timeout: 0s", "timeout", "must be longer than 0s"),
        ("deadline: 1", "deadline", "has no unit"),
        ("options: [a]", "options", "must be a map"),
        ("options:", "options", "write {} for an empty one"),
        ("plugin: Command", "plugin", "no valid plugin"),
    ],
)
def test_a_wrong_value_of_an_application_names_its_layer(
    keys: str, path: str, message: str, errors: Errors
) -> None:
    """Kind 11: the layer a value came from is said."""
    plugin = "" if "plugin" in keys else "plugin: p, "
    layer = f"{{targets: {{a: {{}}}},\n {keys}}}"
    text = f"applications: {{shop: {{{plugin}environments: {{staging: {layer}}}}}}}"
    found = errors(BASE + text)[-1]
    assert (found["line"], found["layer"]) == (6, "applications.shop.environments.staging")
    assert found["path"] == f"applications.shop.environments.staging.{path}"
    assert message in found["message"]


def test_everything_wrong_is_found_in_one_run(errors: Errors) -> None:
    text = """
server: {lisen: x}
recovery: {stale_after: 1s}
environments: {a: {}, b: {tier: staging}}
templates: {unused: {timeout: 3}}
applications:
  shop: {plugin: p, environments: {b: {targets: {}}, c: {}}}
  bare: {plugin: p}
"""
    found = errors(text)
    assert [(error["line"], error["path"]) for error in found] == [
        (2, "server.lisen"),
        (3, "recovery.stale_after"),
        (4, "environments.a"),
        (5, "templates.unused.timeout"),
        (7, "applications.shop.environments.b.targets"),
        (7, "applications.shop.environments.c"),
        (8, "applications.bare"),
    ]


def test_the_first_error_and_the_way_on_are_in_the_message(load: Load, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load("servr: {}\nlog: {}")
    at = tmp_path / "manent.yml"
    assert str(caught.value) == (
        f"{at}:1: servr: unknown key 'servr'; did you mean server? (and 1 more)"
    )
    assert caught.value.next == f"correct {at} and run `manent-server check`"


def test_a_file_that_is_not_there_is_an_error(errors: Errors) -> None:
    [found] = errors({})
    assert (found["file"], found["path"]) == ("manent.yml", "")
    assert found["message"] == "cannot be read: No such file or directory"


STAGES = """
environments:
  staging: {tier: staging, promotion: %s}
  production: {tier: production, promotion: {from: [staging]}}
  dr: {tier: production, promotion: %s}
"""


@pytest.mark.parametrize(
    ("staging", "dr", "paths", "words"),
    [
        ("{from: [staging]}", "null", ["staging"], "proves nothing to itself"),
        ("null", "{from: [staging, dr], match: any}", ["dr"], "proves nothing to itself"),
        ("{from: [dr]}", "{from: [production]}", ["staging", "production", "dr"], "can ever come"),
    ],
)
def test_an_environment_that_waits_for_itself_is_refused(
    staging: str, dr: str, paths: list[str], words: str, errors: Errors
) -> None:
    found = errors(STAGES % (staging, dr))
    assert [one["path"] for one in found] == [f"environments.{p}.promotion.from" for p in paths]
    assert words in found[0]["message"]


def test_a_circle_that_has_another_way_in_is_none(load: Load) -> None:
    load(STAGES % ("null", "{from: [production, staging], match: any}"))
    load(STAGES % ("{from: [dr], match: any}", "null"))
