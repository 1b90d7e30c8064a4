"""How sinks are told: plugins by their hook, receivers by what is configured for them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from manent_server.domain.secret import Secret
from manent_server.observability.redaction import Redactor
from manent_server.plugins import discovery
from manent_server.plugins.host import Host, Plugin
from manent_server.sdk.hooks import hookimpl
from manent_server.sources.secrets import Secrets
from manent_server.usecases.carry import carriers
from manent_server.usecases.deliver import Carrier, Courier
from tests.integration.core.test_notices import HOOK, states, tell
from tests.rig.core import Core

NOWHERE = Secret("secret://env/NOT_THERE")


class Listener:
    """A plugin that only listens; it fails at the first word."""

    def __init__(self) -> None:
        self.heard: list[Mapping[str, Any]] = []
        self.error: BaseException | None = None

    @hookimpl
    def deploy_event(self, event: Mapping[str, Any]) -> None:
        self.heard.append(event)
        if self.error is not None:
            raise self.error


def listening(core: Core, *plugins: Listener) -> Callable[[str], Carrier | None]:
    """Put plugins in place of the core's; how sinks are told then."""
    made = {}
    for number, plugin in enumerate(plugins):
        name = f"listener{number}"
        target = discovery._target(name, plugin, discovery._manager({name: plugin}))
        made[name] = Plugin(name, "1", target.hooks, "idempotent", target=target)
    core.desk = replace(core.desk, host=Host(made, {}))
    redactor = Redactor(["hunter22"])
    return carriers(core.desk, Secrets({}, core.settings.path.parent), redactor)


def test_a_plugin_hears_of_deploys(core: Core):
    listener = Listener()
    carrier = listening(core, listener)
    tell(core, "deploy.ended", "lock.set", deploy="d1", detail={"reason": "it is hunter22"})

    for _ in range(2):
        Courier(core.desk, core.store, "plugins", lambda: carrier("plugins")).round()

    [event] = listener.heard
    assert (event["type"], event["deploy"]) == ("deploy.ended", "d1")
    assert event["detail"] == {"reason": "it is ***"}
    assert event["id"] in {row["id"] for row in core.rows("events")}
    assert states(core, "plugins") == ["delivered"]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)])
def test_a_plugin_that_fails_is_counted_and_matters_to_nobody(
    core: Core, error: BaseException, caplog: pytest.LogCaptureFixture
):
    bad, good = Listener(), Listener()
    bad.error = error
    carrier = listening(core, bad, good)
    tell(core, "deploy.started", "deploy.ended")

    Courier(core.desk, core.store, "plugins", lambda: carrier("plugins")).round()

    assert len(bad.heard) == len(good.heard) == 2
    assert states(core, "plugins") == ["delivered"] * 2
    assert "deploy_event of plugin listener0 failed" in caplog.text
    counted = core.desk.metrics.render().decode()
    assert 'manent_deploy_event_failed_total{plugin="listener0"} 2.0' in counted


def test_a_sink_without_its_secret_says_so_and_is_tried_again(core: Core):
    """B108: an error names the secret, never its value or the token in the address."""
    hook = replace(HOOK, url=Secret("https://h.example/hunter22"), secret=(NOWHERE,))
    core.configure(notify={"board": hook})
    carrier = listening(core)
    tell(core)
    Courier(core.desk, core.store, "board", lambda: carrier("board")).round()

    [row] = core.rows("notices")
    assert row["state"] == "waiting"
    assert row["error"] == "secret://env/NOT_THERE: the server's environment has no NOT_THERE"


def test_a_receiver_inside_is_never_asked(core: Core):
    core.configure(notify={"board": replace(HOOK, url=Secret("http://127.0.0.1:9/hunter22"))})
    carrier = listening(core)
    tell(core)
    Courier(core.desk, core.store, "board", lambda: carrier("board")).round()

    [row] = core.rows("notices")
    assert row["error"] == "127.0.0.1 leads to an internal address that is not allowed"
