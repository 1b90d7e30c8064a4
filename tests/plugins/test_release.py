import errno
import fcntl
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from manent_plugins import release
from manent_plugins.release.root import MARKER, Root
from manent_server.sdk import (
    Context,
    HookFailure,
    Observation,
    PermanentFailure,
    Previous,
    RetryLater,
)
from tests.plugins.contexts import Heard
from tests.plugins.places import QUIET, Place, a_place, artifact


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with a_place(tmp_path) as place:
        yield place


def test_a_version_is_unpacked_made_current_started_and_healthy(place: Place) -> None:
    given = place.deploy("v1")
    release.verify(given)
    assert place.answer()["version"] == "v1"
    assert (place.root / "current").readlink() == Path("releases/v1")
    marker = json.loads((place.root / "releases" / "v1" / MARKER).read_text())
    assert (marker["version"], marker["deploy"]) == ("v1", given.deploy)
    assert given.artifact is not None
    assert marker["sha256"] == given.artifact.sha256
    assert release.observe(given) == Observation("v1", in_place=True)


def test_the_next_version_takes_the_place_of_the_one_before(place: Place) -> None:
    place.deploy("v1")
    release.verify(place.context("v1"))
    first = place.answer()["pid"]
    release.verify(place.deploy("v2", from_version="v1"))
    assert place.answer()["version"] == "v2"
    assert place.answer()["pid"] != first
    assert not Path(f"/proc/{first}/exe").exists()
    assert place.releases == ["v1", "v2"]


def test_a_broken_version_fails_its_verify_and_going_back_works(place: Place) -> None:
    release.verify(place.deploy("v2"))
    given = place.deploy("v3", from_version="v2", options={"health_timeout": "300ms"})
    place.wait_until_it_answers()
    with pytest.raises(HookFailure, match="was not healthy within") as raised:
        release.verify(given)
    assert "it answered 503" in raised.value.message
    release.rollback(place.context("v2", from_version="v3", kind="rollback"))
    assert place.answer()["version"] == "v2"
    assert release.observe(place.context("v2")) == Observation("v2", in_place=True)


def test_the_failed_release_can_still_be_looked_at_after_going_back(place: Place) -> None:
    """B98: going back does not tidy the evidence away."""
    release.verify(place.deploy("v2", options={"keep": 1}))
    place.deploy("v3", from_version="v2", options={"keep": 1})
    release.rollback(place.context("v2", from_version="v3", options={"keep": 1}))
    assert place.releases == ["v2", "v3"]


def test_going_back_to_an_unhealthy_version_is_a_failure(place: Place) -> None:
    with pytest.raises(HookFailure, match="was not healthy"):
        release.rollback(place.context("v3", options={"health_timeout": "200ms"}))


def test_an_attempt_killed_before_the_start_is_completed_by_the_next(place: Place) -> None:
    release.verify(place.deploy("v1"))
    root = Root(place.root)
    with root.held(place.context("v2")):
        root.put(place.context("v2"))
        root.switch("v2")
    release.verify(place.deploy("v2"))
    assert place.answer()["version"] == "v2"


def test_what_was_left_half_unpacked_is_removed(place: Place) -> None:
    place.deploy("v1")
    left = place.root / "releases" / ".unpacking-abcd"
    left.mkdir()
    (left / "half").write_text("x")
    (place.root / "releases" / ".removing-link").symlink_to("/etc")
    (place.root / ".current-abcd").symlink_to("releases/v1")
    place.deploy("v1")
    assert place.releases == ["v1"]
    assert not (place.root / ".current-abcd").is_symlink()
    assert Path("/etc/hostname").exists()


def test_going_back_unpacks_again_what_was_removed(place: Place) -> None:
    place.deploy("v1")
    place.deploy("v2")
    shutil.rmtree(place.root / "releases" / "v1")
    release.rollback(place.context("v1"))
    assert place.answer()["version"] == "v1"


def test_going_back_without_an_artifact_needs_the_folder(place: Place) -> None:
    place.deploy("v1")
    place.deploy("v2")
    release.rollback(place.context("v1", artifact=None))
    assert place.answer()["version"] == "v1"
    with pytest.raises(PermanentFailure, match="there is no artifact to unpack"):
        release.rollback(place.context("v0", artifact=None))
    assert place.answer()["version"] == "v1"


def test_so_many_releases_are_kept_and_never_fewer_than_are_needed(place: Place) -> None:
    for number in range(1, 7):
        place.deploy(
            f"r{number}",
            artifact=place.hello["v1"],
            from_version=f"r{number - 1}" if number > 1 else None,
            options={**QUIET, "keep": 3},
        )
    assert place.releases == ["r4", "r5", "r6"]
    place.deploy("r4", artifact=place.hello["v1"], from_version="r6", options={**QUIET, "keep": 3})
    place.deploy("r7", artifact=place.hello["v1"], from_version="r4", options={**QUIET, "keep": 3})
    assert place.releases == ["r4", "r6", "r7"]
    given = place.context(
        "r8",
        artifact=place.hello["v1"],
        from_version="r6",
        previous=Previous("r4", {}),
        options={**QUIET, "keep": 1},
    )
    release.deploy(given)
    assert place.releases == ["r4", "r6", "r8"]


def test_a_lower_epoch_is_refused_and_changes_nothing(place: Place) -> None:
    release.verify(place.deploy("v2", epoch=50))
    with pytest.raises(PermanentFailure, match="last changed under epoch 50") as raised:
        place.deploy("v1", epoch=49)
    assert raised.value.code == "epoch_outdated"
    assert place.answer()["version"] == "v2"
    place.deploy("v1", epoch=50)


def test_a_root_somebody_else_works_in_is_tried_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manent_plugins.release.root._LOCK_SECONDS", 0.3)
    place.deploy("v1")
    with (place.root / ".manent" / "lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RetryLater, match="another process is at work"):
            place.deploy("v2")
    place.deploy("v2")


def test_two_deploys_of_one_root_at_once_never_mix(place: Place) -> None:
    contexts = [place.context(version, epoch=1) for version in ("v1", "v2") * 3]
    failures: list[Exception] = []

    def run(given: Context) -> None:
        try:
            release.deploy(given)
        except Exception as error:  # noqa: BLE001 - looked at below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(given,)) for given in contexts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    current = (place.root / "current").readlink().name
    release.verify(place.context(current))
    assert place.answer()["version"] == current


def test_current_always_leads_to_a_whole_release(place: Place) -> None:
    place.deploy("v1", options=QUIET)
    stop = threading.Event()
    seen: set[str] = set()
    broken: list[str] = []

    def watch() -> None:
        while not stop.is_set():
            try:
                version = (place.root / "current" / "VERSION").read_text()
            except OSError as error:
                broken.append(errno.errorcode[error.errno or 0])
            else:
                seen.add(version)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(10):
        place.deploy("v2", options=QUIET)
        place.deploy("v1", options=QUIET)
    stop.set()
    watcher.join()
    assert broken == []
    assert seen == {"v1\n", "v2\n"}


def test_a_current_that_is_a_folder_is_not_touched(place: Place) -> None:
    (place.root / "current").mkdir(parents=True)
    with pytest.raises(PermanentFailure, match="is not a link of manent's"):
        place.deploy("v1")
    assert (place.root / "current").is_dir()


def test_a_release_folder_that_is_a_link_is_replaced_not_followed(
    place: Place, tmp_path: Path
) -> None:
    (place.root / "releases").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (place.root / "releases" / "v1").symlink_to(outside)
    release.verify(place.deploy("v1"))
    assert list(outside.iterdir()) == []
    assert not (place.root / "releases" / "v1").is_symlink()


def test_a_malicious_artifact_fails_for_good_and_leaves_nothing(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "bad").write_bytes(b"no archive at all")
    with pytest.raises(PermanentFailure, match="the artifact of shop v1") as raised:
        place.deploy("v1", artifact=artifact(tmp_path / "bad"))
    assert raised.value.code == "archive_refused"
    assert place.releases == []


def test_a_cancel_stops_unpacking_and_leaves_the_old_release(place: Place) -> None:
    release.verify(place.deploy("v1"))
    place.heard.is_asked_to_stop = True
    with pytest.raises(HookFailure, match="stopped"):
        place.deploy("v2")
    place.heard.is_asked_to_stop = False
    assert place.releases == ["v1"]
    assert place.answer()["version"] == "v1"


def test_an_outdated_owner_does_not_switch(place: Place) -> None:
    class Lost(Heard):
        def is_owner(self) -> bool:
            return False

    release.verify(place.deploy("v1"))
    place.deploy("v2")
    place.deploy("v1")
    given = replace(place.context("v2"), channel=Lost())
    with pytest.raises(HookFailure, match="stopped before the switch"):
        release.deploy(given)
    assert (place.root / "current").readlink() == Path("releases/v1")


def test_a_root_that_two_places_share_is_warned_about(place: Place) -> None:
    place.deploy("v1", options=QUIET)
    assert "root of" not in place.heard.text
    place.deploy("v1", options=QUIET, environment="production")
    assert "is also the root of shop/staging/web-1" in place.heard.text


def test_an_old_release_that_cannot_be_removed_does_not_fail_the_deploy(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> list[str]:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Root, "tidy", refuse)
    place.deploy("v1", options=QUIET)
    assert "old releases could not be removed" in place.heard.text
