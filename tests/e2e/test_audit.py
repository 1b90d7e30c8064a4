"""The record of a real server: whole in its file and in its database."""

import json
from pathlib import Path
from typing import Any

import pytest

from manent_server.domain import audit
from tests.rig.ledger import Ledger
from tests.rig.process import until
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e


def config(ledger: Ledger) -> Config:
    return {}


def lines(shared: Rig) -> list[tuple[str, dict[str, Any]]]:
    """Each line of the audit file as it is written, and as it is read."""
    [path] = Path(shared.config_file().parent).glob("**/audit.jsonl")
    return [(line, json.loads(line)) for line in path.read_text().splitlines()]


def test_a_deploy_stands_in_the_file_and_the_chain_holds(shared: Rig) -> None:
    """I12: numbers without a hole, each hash of the one before; by the file alone."""
    deploy = shared.deploy("1")["id"]
    shared.ended(deploy)

    def has_ended() -> bool:
        told = [found["record"] for _, found in lines(shared)]
        return any(one["action"] == "deploy.ended" and one["deploy"] == deploy for one in told)

    until(has_ended, what="the end in the file")
    last, number = audit.GENESIS, 0
    for line, found in lines(shared):
        number += 1
        text = line.partition(',"record":')[2].removesuffix("}")
        assert found["number"] == number
        assert audit.link(last, number, text) == found["hash"]
        last = found["hash"]
    said = shared.server_cli(["audit", "verify", "--known", f"{number}:{last}"])
    assert said.returncode == 0, said
    assert json.loads(said.stdout)["verified"] is True


def test_a_known_place_that_is_another_is_named(shared: Rig) -> None:
    said = shared.server_cli(["audit", "verify", "--known", f"1:{'f' * 64}"])
    assert said.returncode == 1
    assert json.loads(said.stdout)["broken"]["kind"] == "rewritten"
    assert shared.server_cli(["audit", "verify", "--known", "x"]).returncode == 2


def test_manent_audit_tells_of_a_deploy(shared: Rig) -> None:
    deploy = shared.deploy("2")["id"]
    shared.ended(deploy)
    said = shared.cli(["audit", "--deploy", deploy, "-o", "jsonl"])
    actions = [json.loads(line)["action"] for line in said.stdout.splitlines()]
    assert actions == ["deploy.ended", "deploy.started", "deploy.requested"]
