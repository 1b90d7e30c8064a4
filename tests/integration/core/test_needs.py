"""What live deploys need of a configuration that changes."""

from dataclasses import replace

import pytest

from manent_server.domain.errors import Conflict
from manent_server.settings import Settings
from manent_server.usecases import inspect, needs, policy
from manent_server.usecases.needs import Need
from tests.rig.core import Core


def without_application(settings: Settings, name: str = "shop") -> Settings:
    known = {key: value for key, value in settings.applications.items() if key != name}
    return replace(settings, applications=known)


def without_environment(settings: Settings, name: str = "staging") -> Settings:
    known = {key: value for key, value in settings.environments.items() if key != name}
    return replace(settings, environments=known)


def with_place(settings: Settings, targets: dict[str, dict[str, str]] | None) -> Settings:
    shop = settings.applications["shop"]
    places = {key: value for key, value in shop.environments.items() if key != "staging"}
    if targets is not None:
        places["staging"] = replace(shop.environments["staging"], targets=targets)
    known = {**settings.applications, "shop": replace(shop, environments=places)}
    return replace(settings, applications=known)


def lacking(core: Core, settings: Settings, *plugins: str) -> list[tuple[str, str, bool]]:
    found = needs.missing(needs.read(core.store), settings, plugins=plugins or None)
    return [(need.what, need.name, need.is_binding) for need in found]


def test_everything_a_live_deploy_needs_is_named(sqlite_core: Core):
    core, settings = sqlite_core, sqlite_core.settings
    deploy = core.submit()
    gone = "shop with targets in staging"
    assert lacking(core, settings, "fake") == []
    assert lacking(core, without_application(settings)) == [("application", "shop", True)]
    assert lacking(core, without_environment(settings)) == [("environment", "staging", True)]
    assert lacking(core, with_place(settings, None)) == [("application", gone, True)]
    assert lacking(core, with_place(settings, {"web-2": {}})) == [("target", "web", False)]
    assert lacking(core, settings, "other") == [("plugin", "fake", True)]
    shown = needs.of_json(inspect.deploy(core.desk, deploy))
    assert [shown] == needs.read(core.store)
    words = Need(deploy, "plugin", "fake", "shop in staging").words
    assert words == f"live deploy {deploy} of shop in staging needs plugin fake"


def test_a_reload_may_drop_a_target_but_no_place(sqlite_core: Core):
    core, settings = sqlite_core, sqlite_core.settings
    deploy = core.submit()
    with core.store.read() as tx:
        for after in (without_application(settings), with_place(settings, None)):
            with pytest.raises(Conflict, match=deploy):
                policy.demand_may_go(tx, settings, after)
            # What this process did not have before is no news of this reload.
            assert policy.demand_may_go(tx, after, after) == []
        going = policy.demand_may_go(tx, settings, with_place(settings, {"web-2": {}}))
    assert [(need.deploy, need.name) for need in going] == [(deploy, "web")]
