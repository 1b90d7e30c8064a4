import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from manent_plugins import release
from manent_plugins.release.root import MARKER, Root
from manent_plugins.release.service import Service
from manent_server.sdk import Observation, Previous
from tests.plugins.places import Place, a_place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with a_place(tmp_path) as place:
        yield place


def test_the_same_version_again_changes_nothing(place: Place) -> None:
    release.verify(place.deploy("v1"))
    pid = place.answer()["pid"]
    before = {
        path: path.lstat().st_ino for path in place.root.rglob("*") if "json" not in path.name
    }
    release.verify(place.deploy("v1", from_version="v1", previous=Previous("v1", {})))
    assert place.answer()["pid"] == pid
    after = {path: path.lstat().st_ino for path in place.root.rglob("*") if "json" not in path.name}
    assert after == before
    assert "nothing to do" in place.heard.text


@pytest.mark.parametrize("drift", ["changed", "removed", "mode", "linked", "folder", "marker"])
def test_a_file_altered_by_hand_is_put_right_by_the_same_version(place: Place, drift: str) -> None:
    """B53: what is current is looked at, not believed."""
    release.verify(place.deploy("v1"))
    folder = place.root / "releases" / "v1"
    greeting = folder / "greeting.txt"
    if drift == "changed":
        greeting.write_text("altered")
    elif drift == "removed":
        greeting.unlink()
    elif drift == "mode":
        greeting.chmod(0o777)
    elif drift == "linked":
        greeting.unlink()
        greeting.symlink_to("/etc/hostname")
    elif drift == "folder":
        shutil.rmtree(folder)
    else:
        (folder / MARKER).write_text("{")
    assert release.observe(place.context("v1")) == Observation("v1", in_place=False)
    release.verify(place.deploy("v1"))
    assert place.answer()["greeting"] == "Hello from the first version"
    assert not greeting.is_symlink()
    assert release.observe(place.context("v1")) == Observation("v1", in_place=True)


def test_a_current_led_elsewhere_by_hand_is_put_right(place: Place) -> None:
    """B53: also when the record says that the version is in place."""
    place.deploy("v1")
    release.verify(place.deploy("v2"))
    (place.root / "current").unlink()
    (place.root / "current").symlink_to("releases/v1")
    assert release.observe(place.context("v2")) == Observation("v1", in_place=False)
    release.verify(place.deploy("v2"))
    assert (place.root / "current").readlink() == Path("releases/v2")


def test_a_service_that_died_is_started_again_by_the_same_version(place: Place) -> None:
    """B53: a running process is part of what is in place."""
    release.verify(place.deploy("v1"))
    os.kill(place.answer()["pid"], signal.SIGKILL)
    deadline = time.monotonic() + 30
    while Service(Root(place.root)).is_alive and time.monotonic() < deadline:
        time.sleep(0.01)
    assert release.observe(place.context("v1")) == Observation("v1", in_place=False)
    release.verify(place.deploy("v1"))
    assert place.answer()["version"] == "v1"


def test_a_changed_environment_restarts_the_service(place: Place) -> None:
    release.verify(place.deploy("v1"))
    pid = place.answer()["pid"]
    variables = {"PORT": str(place.port), "MODE": "other"}
    release.verify(place.deploy("v1", options={"environment": variables}))
    assert place.answer()["pid"] != pid


def test_another_artifact_under_the_same_version_replaces_it(place: Place) -> None:
    release.verify(place.deploy("v1"))
    given = place.deploy("v1", artifact=place.hello["v2"])
    assert (place.root / "releases" / "v1" / "VERSION").read_text() == "v2\n"
    assert release.observe(given).version == "v1"
