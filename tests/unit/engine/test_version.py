"""Which workflow version a deploy is begun with, and who may go on with it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from manent_server.domain.errors import ConfigurationError
from manent_server.engine import version as versions
from manent_server.engine.version import WORKFLOW_VERSION
from manent_server.store.workers import Executor

AT = datetime(2027, 1, 1, tzinfo=UTC)


def worker(version: str, *plugins: str) -> Executor:
    known: dict[str, Any] = dict.fromkeys(Executor.__dataclass_fields__)
    row = {"id": version, "version": version, "plugins": plugins or ("fake",), "heartbeat_at": AT}
    return Executor(**(known | row))


def test_this_build_runs_the_version_it_writes():
    assert versions.versions()[-1] == WORKFLOW_VERSION
    assert versions.knows_shape(WORKFLOW_VERSION, 1)
    assert not versions.knows_shape(WORKFLOW_VERSION, 2)


@pytest.mark.parametrize("version", ["0.2.0", "0.10.0", "1.0"])
def test_a_newer_version_reads_what_this_build_writes(version: str):
    assert versions.knows_shape(version, 1)
    assert not versions.knows_shape("0.0.9", 1)


def test_the_newest_version_that_knows_the_shape_and_offers_the_plugin_is_taken():
    crew = [worker("0.0.9"), worker("0.1.0"), worker("0.10.0"), worker("0.9.0")]
    assert versions.newest(crew, shape=1, plugin="fake") == "0.10.0"
    assert versions.newest([worker("0.1.0")], shape=2, plugin="fake") is None
    assert (
        versions.newest([worker("0.1.0"), worker("0.2.0", "x")], shape=1, plugin="fake") == "0.1.0"
    )
    assert versions.newest([], shape=1, plugin="fake") is None


def test_only_a_worker_of_its_version_goes_on_with_a_deploy():
    crew = [worker("0.2.0")]
    assert versions.can_resume("0.2.0", crew)
    assert not versions.can_resume("0.1.0", crew)
    assert versions.can_resume(None, [])


def test_a_build_runs_no_version_it_does_not_know():
    assert versions.demand(WORKFLOW_VERSION) == WORKFLOW_VERSION
    with pytest.raises(ConfigurationError, match=r"cannot run workflow version 0\.0\.9") as refused:
        versions.demand("0.0.9")
    assert WORKFLOW_VERSION in refused.value.next
