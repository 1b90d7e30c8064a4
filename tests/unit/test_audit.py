"""What the gate makes of an audit of the dependencies."""

import json

import pytest

from tests import audit

WEAK = {"name": "h11", "version": "0.1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["0.2"]}]}
WELL = {"name": "anyio", "version": "4.0", "vulns": []}
SKIPPED = {"name": "own", "skip_reason": "it is not there"}


def test_a_weakness_fails_and_is_named_with_what_mends_it() -> None:
    verdict = audit.judge(json.dumps({"dependencies": [WELL, WEAK, SKIPPED]}), "Found 1")
    assert verdict.is_bad
    assert "h11 0.1: PYSEC-1, mended in 0.2" in verdict.words


def test_no_weakness_is_said() -> None:
    verdict = audit.judge(json.dumps({"dependencies": [WELL]}), "No known vulnerabilities")
    assert (verdict.is_bad, verdict.words) == (False, "ok   no known weakness in 1 dependencies")


@pytest.mark.parametrize("said", ["", "{", "[]", "null", '{"dependencies": null}'])
def test_a_database_out_of_reach_fails_nothing_and_is_said_loudly(said: str) -> None:
    verdict = audit.judge(said, "Traceback\nConnectionError: no route to host\n")
    assert not verdict.is_bad
    assert "NOT AUDITED: ConnectionError: no route to host" in verdict.words


def test_a_program_that_is_missing_is_said_loudly() -> None:
    assert "pip-audit is not installed" in audit.end(None).words
