"""Which plugins there are, what is wrong with the others, and what options they allow."""

import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from manent_server.domain.errors import ConfigurationError, NotFound
from manent_server.plugins.external import NotDescribed, describe
from manent_server.plugins.host import Host, discover
from tests.plugins.bench import PROBE

SCHEMA = """{"type": "object", "additionalProperties": false, "required": ["root"],
 "properties": {"root": {"type": "string"}, "keep": {"type": "integer", "minimum": 1}}}"""

DESCRIBES = f"""#!{sys.executable}
import json, os
answer = os.fdopen(int(os.environ["MANENT_PROTOCOL_OUT"]), "w")
question = json.loads(os.fdopen(int(os.environ["MANENT_PROTOCOL_IN"])).readline())
assert question == {{"type": "describe", "protocol": 1}}
print("chatter")
answer.write('{{"type": "log", "text": "hello"}}\\n')
answer.write(json.dumps({{"type": "description", "hooks": ["deploy", "verify"],
    "effects": "once", "templates": ["root"], "options": json.loads('''{SCHEMA}''')}}) + "\\n")
"""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PROBE))
        yield discover({})


def script(folder: Path, text: str) -> list[str]:
    path = folder / "plugin"
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return [str(path)]


def test_plugins_are_found_by_their_entry_points(host: Host) -> None:
    probe = host.plugin("probe")
    assert probe.build == "1.0"
    assert probe.hooks == {"deploy", "verify"}
    assert probe.effects == "idempotent"
    assert not probe.is_external
    assert {"command", "release", "probe"} <= host.names()


def test_a_broken_plugin_disables_only_itself(host: Host) -> None:
    assert "cannot be imported: RuntimeError: no such luck" in host.broken["probe-crash"]
    with pytest.raises(ConfigurationError, match="probe-crash is broken"):
        host.plugin("probe-crash")


def test_a_plugin_may_need_an_artifact(host: Host) -> None:
    needing = {name for name in host.names() if host.plugin(name).needs_artifact}
    assert needing == {"release"}


def test_a_misspelt_hook_is_an_error_that_names_the_nearest(host: Host) -> None:
    assert host.broken["probe-misspelt"] == "unknown hook deplyo; nearest is deploy"


def test_an_unknown_plugin_is_told_with_the_nearest(host: Host) -> None:
    with pytest.raises(NotFound, match="nearest is probe"):
        host.plugin("prope")


def test_every_wrong_option_is_found_with_the_nearest_key(host: Host) -> None:
    findings = dict(host.check_options("command", {"deply": ["./deploy"], "effects": "twice"}))
    assert findings["deply"] == "unknown key; nearest is deploy"
    assert "effects" in findings


def test_an_external_plugin_describes_itself(tmp_path: Path) -> None:
    host = discover({"mine": script(tmp_path, DESCRIBES)})
    plugin = host.plugin("mine")
    assert plugin.is_external
    assert plugin.hooks == {"deploy", "verify"}
    assert plugin.effects == "once"
    assert plugin.templates == {"root"}
    assert not plugin.needs_artifact
    needing = script(tmp_path, DESCRIBES.replace('"hooks"', '"needs_artifact": True, "hooks"'))
    assert discover({"mine": needing}).plugin("mine").needs_artifact
    assert len(plugin.build) == 64
    assert plugin.hook_for("rollback") == "deploy"
    assert plugin.hook_for("observe") is None
    assert plugin.effects_of({}) == "once"
    assert host.check_options("mine", {"root": "/srv", "keep": 3}) == []
    assert host.check_options("mine", {"rot": 1, "keep": 0}) == [
        ("root", "is required"),
        ("rot", "unknown key; nearest is root"),
        ("keep", "must have minimum 1"),
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#!/bin/sh\nexit 3\n", "ended without an answer"),
        ("#!/bin/sh\nkill -9 $$\n", "ended without an answer"),
        ("#!/bin/sh\neval 'echo nonsense >&'$MANENT_PROTOCOL_OUT\n", "not JSON"),
        ("#!/bin/sh\neval 'echo {} >&'$MANENT_PROTOCOL_OUT\n", "not an object with a type"),
        ("#!/bin/sh\neval 'yes | tr -d \"\\n\" >&'$MANENT_PROTOCOL_OUT\n", "a line of more than"),
        (DESCRIBES.replace('"verify"', '"verfy"'), "unknown hook verfy"),
        (DESCRIBES.replace('"deploy", ', ""), "has no hook deploy"),
        (DESCRIBES.replace('"once"', '"twice"'), "effects must be"),
        (DESCRIBES.replace('["root"]', '"root"'), "templates must be a list"),
        (DESCRIBES.replace('"description"', '"result"'), "answered 'result'"),
    ],
)
def test_an_external_plugin_that_answers_nonsense_is_broken(
    tmp_path: Path, text: str, why: str
) -> None:
    host = discover({"mine": script(tmp_path, text)})
    assert "mine" not in host.names()
    assert why in host.broken["mine"]


def test_an_external_plugin_that_hangs_is_given_up(tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(NotDescribed, match=r"no answer within 0\.5 seconds"):
        describe(script(tmp_path, "#!/bin/sh\nsleep 600\n"), seconds=0.5)
    assert time.monotonic() - begun < 15


def test_an_executable_that_is_not_there_is_told(tmp_path: Path) -> None:
    host = discover({"mine": [str(tmp_path / "none")]})
    assert "cannot be started: No such file or directory" in host.broken["mine"]


def test_one_name_cannot_mean_two_plugins(tmp_path: Path) -> None:
    host = discover({"command": script(tmp_path, DESCRIBES)})
    assert "command" not in host.names()
    assert "installed under the same name" in host.broken["command"]
