"""A reload that is asked for reaches every process; what would be refused is asked of nobody."""

from dataclasses import replace

import pytest

from manent_server.domain.access import Caller, everywhere
from manent_server.domain.errors import ConfigurationError, Conflict, Invalid, NotAllowed
from manent_server.usecases.desk import Desk
from manent_server.usecases.prospect import Prospect
from manent_server.usecases.reload import ASKED, reload
from manent_server.usecases.requests import IdempotencyKey
from tests.integration.core.restoring import gone_back, guard, settled, standing, unfence
from tests.rig.core import ADMIN, Core

KEY = IdempotencyKey("k1", "/api/v1/admin/reload", "digest")


def asked(core: Core) -> int:
    """How often it is on record."""
    return sum(row["action"] == ASKED for row in core.rows("audit"))


def refusing(core: Core, error: Exception) -> Desk:
    """A desk whose process cannot take up its files."""

    def prospect() -> Prospect:
        raise error

    return replace(core.desk, prospect=prospect)


def test_every_process_is_told_once(core: Core) -> None:
    """One that begins later has read the files already."""
    keepers = [guard(core, settled(core), name=name) for name in ("w1", "w2")]
    assert all(keeper.look() for keeper in keepers)
    before, on_record = standing(core).reload_asked, asked(core)
    answer = reload(core.desk, "new place", caller=ADMIN)
    assert (answer["reload"], answer["reason"]) == (before + 1, "new place")
    assert asked(core) == on_record + 1
    late = guard(core, settled(core), name="w3")
    assert late.look()
    assert [keeper.watch() for keeper in (*keepers, late)] == [True, True, False]
    assert [keeper.watch() for keeper in (*keepers, late)] == [False, False, False]


def test_one_key_asks_once_and_gets_the_same_answer(core: Core) -> None:
    """Also when the files have got faults since."""
    before = standing_number(core)
    first = reload(core.desk, caller=ADMIN, key=KEY)
    faulty = refusing(core, ConfigurationError("line 3: unknown key"))
    assert reload(faulty, caller=ADMIN, key=KEY) == first
    assert standing_number(core) == before + 1


def standing_number(core: Core) -> int:
    settled(core)
    return standing(core).reload_asked


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (ConfigurationError("line 3", errors=[{"path": "x", "message": "line 3"}]), Invalid),
        (Conflict("live deploys need it", code="deploys_live"), Conflict),
    ],
    ids=["faults", "live deploys"],
)
def test_what_would_be_refused_is_asked_of_nobody(
    core: Core, error: Exception, refusal: type[Exception]
) -> None:
    before, on_record = standing_number(core), asked(core)
    with pytest.raises(refusal, match=r"line 3|live deploys"):
        reload(refusing(core, error), caller=ADMIN)
    assert (standing_number(core), asked(core)) == (before, on_record)


def test_who_may_not_administer_reads_no_file(core: Core) -> None:
    """Nor does who may in one place alone."""
    faulty = refusing(core, AssertionError("was read"))
    for role in ("viewer", "deployer", "approver"):
        with pytest.raises(NotAllowed):
            reload(faulty, caller=Caller("vi", everywhere(role)))


def test_a_fenced_database_takes_the_word_for_later(core: Core) -> None:
    assert not guard(core, gone_back(core)).look()
    answer = reload(core.desk, caller=ADMIN)
    assert "before the restored database is opened" in answer["takes_effect"]
    unfence(core)
