"""Names and versions: one thing by one spelling, and never anything but data."""

import pytest

from tests.rig.ledger import Ledger
from tests.rig.process import files
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e

LONGEST = "a" * 63
ODD = "team.api-v1_x"
WIDE = "\uff53\uff54\uff41\uff47\uff49\uff4e\uff47"  # "staging" in full-width letters
OTHER_SPELLINGS = ("STAGING", "Staging", "staging ", " staging", "st\u00e1ging", "sta\u0301ging")
NO_NAMES = (
    "team/api", "eu/prod", "a%2Fb", "..", "", "a" * 64, "\U0001f680", "\u05e9\u05dc\u05d5\u05dd",
    "sh\u202eop", "shop\n", "shop\x00", "-shop", "shop;id",
)  # fmt: skip
NO_VERSIONS = (
    "feature/ABC-1", ";touch pwned", "$(touch pwned)", "`touch pwned`", "1;touch pwned", "-rf",
    "--upload-pack=x", "1\ntouch pwned", "", "..", "1 2", "a" * 129, "\uff11", "v1\u200b",
)  # fmt: skip


def config(ledger: Ledger) -> Config:
    names = ("acme", ODD, LONGEST)
    return {
        "environments": {"staging": {"concurrency": 5}},
        "applications": {name: ledger.application() for name in names},
    }


def test_another_spelling_of_an_environment_is_the_same_or_refused(shared: Rig) -> None:
    """B110: a lock on an environment is passed by no spelling of its name."""
    lock = shared.http(
        "POST", "/locks", json={"environment": WIDE, "reason": "whatever the spelling"}
    ).json()
    assert lock["environment"] == "staging"
    before = len(shared.get("/deploys", application="acme")["items"])
    for spelling in OTHER_SPELLINGS:
        body = {"application": "acme", "environment": spelling, "version": "1"}
        answer = shared.http("POST", "/deploys", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "name_invalid"), spelling
        assert "staging" in answer.json()["next"] or spelling.isspace(), answer.text
    assert len(shared.get("/deploys", application="acme")["items"]) == before
    same = shared.deploy("1", application="acme", environment=WIDE)
    assert (same["environment"], same["phase"]) == ("staging", "locked")
    assert [e["name"] for e in shared.get("/environments")["items"]] == ["production", "staging"]
    shared.http("DELETE", f"/locks/{lock['id']}")
    assert shared.ended(same["id"])["outcome"] == "deployed"


def test_a_name_is_exact_or_refused_wherever_it_is_given(shared: Rig) -> None:
    """B112: 422 at every door, never a 500 and never another thing's data."""
    for name in NO_NAMES:
        body = {"application": name, "environment": "staging", "version": "1"}
        answers = [
            shared.http("POST", "/deploys", json=body),
            shared.http("POST", "/locks", json={"application": name, "reason": "x"}),
            shared.http("POST", "/rollbacks", json={**body, "version": None, "reason": "x"}),
            shared.http("GET", "/deploys", params={"application": name}),
            shared.http("GET", "/inventory", params={"environment": name}),
        ]
        codes = {answer.status_code for answer in answers}
        assert codes <= {400, 422}, (name, codes)
        assert all(answer.json()["next"] for answer in answers)
    for path in ("%2e%2e", "a%252Fb", "%F0%9F%9A%80", "Staging", "%00"):
        answer = shared.http("GET", f"/environments/{path}")
        assert answer.status_code in (404, 422), path
        address = shared.http("GET", f"/deploys/{path}")
        assert address.status_code in (404, 422), path


def test_what_is_well_formed_and_unknown_is_not_found(shared: Rig) -> None:
    body = {"application": "acme", "environment": "nowhere", "version": "1"}
    for changed in ({}, {"application": "acne", "environment": "staging"}):
        answer = shared.http("POST", "/deploys", json=body | changed)
        assert answer.status_code == 404
        assert answer.json()["next"]


@pytest.mark.parametrize("name", [ODD, LONGEST])
def test_odd_names_and_versions_make_the_round_trip(shared: Rig, name: str) -> None:
    """B112: dots, dashes, plus signs and the longest forms, through API, CLI and log."""
    for version in ("v1.0.0+build.5", "1.10", "012", "9" * 128):
        ended = shared.deployed(version, application=name)
        assert (ended["outcome"], ended["version"]) == ("deployed", version)
        found = shared.get("/deploys", application=name, version=version)["items"]
        assert [one["id"] for one in found] == [ended["id"]]
        (run,) = shared.ledger.runs(deploy=ended["id"])
        assert (run.application, run.version) == (name, version)
    told = shared.cli(["list", "--application", name, "--version", "v1.0.0+build.5", "-o", "json"])
    assert told.returncode == 0, told.stderr
    assert '"v1.0.0+build.5"' in told.stdout
    shown = shared.cli(["show", f"{name}/staging#{ended['number']}", "-o", "name"])
    assert shown.stdout.strip() == f"deploy/{ended['id']}"
    assert shared.cli(["logs", f"{name}/staging#{ended['number']}"]).returncode == 0
    (row,) = shared.get("/inventory", application=name)["items"]
    assert row["version"] == "9" * 128


def test_a_version_never_reaches_a_shell_or_becomes_an_option(shared: Rig) -> None:
    """B113: refused at both doors, nothing is created, no file appears."""
    before = shared.get("/deploys", application="acme")["items"]
    for version in NO_VERSIONS:
        body = {"application": "acme", "environment": "staging", "version": version}
        answer = shared.http("POST", "/deploys", json=body)
        assert answer.status_code == 422, version
        assert answer.json()["next"]
    for version in ("$(touch pwned)", "-rf", "--upload-pack=x", "--help"):
        for words in (["acme", "staging", version], ["acme", "staging", "--", version]):
            told = shared.cli(["deploy", *words])
            assert told.returncode == 2, (words, told.stderr)
    assert shared.get("/deploys", application="acme")["items"] == before
    assert files(shared.folder, "pwned") == []


def test_prose_of_a_person_is_data_too(shared: Rig) -> None:
    """B113: a reason with everything a shell would act on comes back byte for byte."""
    reason = "'; touch pwned; $(touch pwned) `touch pwned` %s {version} {{x}} \u202e\U0001f680"
    ended = shared.deployed("7", application="acme", reason=reason)
    assert (ended["outcome"], ended["reason"]) == ("deployed", reason)
    assert files(shared.folder, "pwned") == []
