"""`access`: who may what, and what is refused because it would let in more than was meant."""

import pytest

from manent_server.domain.access import Grant
from manent_server.settings.access import unmatched
from tests.unit.settings.conftest import Errors, Load

GITHUB = "https://token.actions.githubusercontent.com"
WHOLE = f"""
access:
  oidc:
    company: {{issuer: https://id.example, client_id: manent}}
  trust:
    shop:
      issuer: {GITHUB}
      audience: https://manent.example
      claims: {{repository_id: "583231", ref: [refs/heads/main, refs/heads/next]}}
      role: deployer
      applications: [shop, "web-*"]
  roles:
    developers: {{role: deployer, environments: [staging]}}
    /Platform Team:
      - {{role: operator}}
      - {{role: viewer, applications: [payroll], deny: true}}
  people:
    ann@example: {{groups: [sre], principals: ["oidc:https://id.example#1"], github: "42"}}
    bob: {{slack: U1, github: "43"}}
  groups_max_age: 8h
"""


def test_everything_is_read(load: Load):
    access = load(WHOLE).access
    assert access.oidc["company"].groups_claim == "groups"
    assert access.trust["shop"].claims["ref"] == ("refs/heads/main", "refs/heads/next")
    assert access.trust["shop"].environments == ("*",)
    assert access.roles["developers"] == (Grant("deployer", environments=("staging",)),)
    assert access.roles["/Platform Team"][1] == Grant("viewer", ("payroll",), deny=True)
    assert access.groups_max_age.total_seconds() == 8 * 3600


def test_people_are_found_by_what_they_are_elsewhere(load: Load):
    access = load(WHOLE).access
    assert access.login_of("oidc:https://id.example#1") == "ann@example"
    assert access.login_of("bob") == "bob"
    assert access.login_of("carol") is None
    assert access.login_at("github", "43") == "bob"
    assert access.login_at("slack", "U1") == "bob"
    assert access.login_at("slack", "42") is None


def test_what_nobody_who_signs_in_can_match_is_told(load: Load):
    people = """
access:
  oidc: {company: {issuer: "https://id.example", client_id: manent}}
  people:
    ann: {principals: ["oidc:https://id.example#1"]}
    bob: {groups: [sre]}
    eve: {principals: ["oidc:https://old.example#2"]}
    joe: {slack: U1}
"""
    told = unmatched(load(people).access)
    assert [one.split(":")[0] for one in told] == ["access.people.bob", "access.people.eve"]
    assert "no issuer https://old.example" in told[1]


def test_without_it_nobody_is_known(load: Load):
    access = load("").access
    assert (dict(access.roles), dict(access.people), dict(access.trust)) == ({}, {}, {})


TRUST = "access: {{trust: {{x: {{issuer: '{0}', audience: a, role: deployer, claims: {1}}}}}}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TRUST.format(GITHUB, "{}"), "anybody's jobs there would do"),
        (TRUST.format(GITHUB, "{repository: me/shop}"), "repository_id or repository_owner_id"),
        (TRUST.format("https://gitlab.com", "{project_path: me/shop}"), "project_id"),
        (TRUST.format("https://ci.example", "{}"), "at least one claim"),
        (TRUST.format("https://ci.example", "{sub: []}"), "at least 1"),
        (TRUST.format("https://ci.example", "{sub: 1}"), "quote it"),
        (TRUST.format("http://ci.example", '{sub: "1"}'), "must be an https URL"),
        (TRUST.format("https://me:pw@ci.example", '{sub: "1"}'), "must be an https URL"),
        ("access: {roles: {dev: {role: root}}}", "must be one of viewer"),
        ("access: {roles: {dev: {role: viewer, applications: []}}}", "at least 1"),
        ('access: {roles: {dev: {role: viewer, applications: ["[a]"]}}}', "stand for any"),
        ('access: {roles: {" dev": {role: viewer}}}', "one line of text"),
        ('access: {people: {a: {github: "1"}, b: {github: "1"}}}', "a and b have the same github"),
        ("access: {people: {a: {principals: [t]}, b: {principals: [t]}}}", "the same principals"),
        ("access: {people: {a: {principals: [b]}, b: {}}}", "a person of its own"),
        ("access: {people: {a: {github: 1}}}", "quote it"),
        ("access: {oidc: {x: {issuer: https://id.example}}}", "client_id is missing"),
        ("access: {tokens: {}}", "unknown key"),
    ],
)
def test_what_would_let_in_more_than_was_meant_is_refused(errors: Errors, text: str, message: str):
    assert message in " ".join(found["message"] for found in errors(text))
