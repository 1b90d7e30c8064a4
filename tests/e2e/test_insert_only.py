"""A whole server under a role that may only add to the record, by the grants of the page."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.rig.postgres import Postgres
from tests.rig.process import until
from tests.rig.serve import Rig

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]
PAGE = Path(__file__).parents[2] / "docs/how-to/keep-and-check-the-record.md"


def grants(role: str) -> str:
    return PAGE.read_text().split("```sql\n")[1].split("```")[0].replace("manent_server", role)


@pytest.fixture
def limited(tmp_path: Path, postgres_server: Postgres) -> Iterator[Rig]:
    """A server whose role has what the page gives it, on tables of another."""
    url = postgres_server.create_database()
    role = f"runtime_{os.getpid()}"
    rule = {"name": "release", "quorum": 1, "unknown_requester": "allow"}
    config = {
        "environments": {"staging": {"tier": "staging", "approvals": [rule]}},
        "retention": {"max_age": "90d"},
    }
    owner = Rig(tmp_path, url, config)
    owner.prepare()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(grants(role))
    rig = Rig(tmp_path, url.replace("postgres@", f"{role}@"), config)
    rig.token = owner.token
    rig.write_config()
    try:
        rig.start()
        yield rig
    finally:
        rig.close()


def test_a_server_that_may_only_add_to_the_record_does_all_its_work(limited: Rig) -> None:
    """I12: it deploys, approves, prunes, chains and verifies; it cannot change what is written."""
    rig = limited
    given = ["token", "create", "bob", "--role", "approver", "--kind", "person"]
    bob = {"MANENT_TOKEN": rig.server_cli(given, check=True).stdout.strip()}
    for version in ("1", "2"):
        deploy = rig.deploy(version)["id"]
        wanted = {"deploy": deploy, "state": "waiting"}
        [approval] = until(lambda a=wanted: rig.get("/approvals", **a)["items"], what="asked")
        said = rig.cli(["approve", approval["id"]], environ=bob)
        assert said.returncode == 0, said.stderr
        assert rig.ended(deploy)["state"] == "SUCCESS"
    access = {"MANENT_URL": rig.url, "MANENT_TOKEN": rig.token}
    every = ["--max-age", "1ms", "--keep-releases", "1"]
    assert rig.server_cli(["admin", "prune", *every], environ=access).returncode == 0
    assert (until(lambda: verified(rig), what="all of it is chained") or 0) >= 6
    assert_doctor_finds_it_good(rig)
    with psycopg.connect(rig.database_url, autocommit=True) as connection:
        for statement in ("UPDATE manent.audit SET actor = 'x'", "DELETE FROM manent.audit_chain"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


def assert_doctor_finds_it_good(rig: Rig) -> None:
    """All of it, beside a server at work, under a role that may not change the record."""
    done = rig.server_cli(["doctor", "-o", "json"], check=False)
    found = json.loads(done.stdout)
    levels = {one["check"]: one["level"] for one in found["checks"]}
    # The database servers of tests do not keep what they acknowledge: the one thing that is wrong.
    assert {name for name, level in levels.items() if level != "ok"} == {"durability"}, found
    assert (done.returncode, found["good"], found["left_out"]) == (1, False, [])
    assert len(levels) == 18


def verified(rig: Rig) -> int:
    """How many records were good, once all of them have a number."""
    said = rig.server_cli(["audit", "verify"])
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    return 0 if found["waiting"] else int(found["records"])
