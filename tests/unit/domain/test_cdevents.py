"""Events as CDEvents 0.5.1 in CloudEvents 1.0."""

import re
from typing import Any

import pytest

from manent_server.domain import cdevents, events
from manent_server.domain.deploy import Outcome

URL = "https://manent.example"
ENDED = {
    "id": "e1",
    "position": 7,
    "at": "2027-01-31T18:00:00.000000Z",
    "type": "deploy.ended",
    "actor": "manent",
    "deploy": "d2",
    "application": "shop",
    "environment": "production",
    "detail": {
        "outcome": "deployed",
        "version": "1.0+b",
        "error": None,
        "kind": "deploy",
        "root": "d1",
        "sha256": "ab" * 32,
        "replaces": None,
    },
}
# What the custom schema of the specification allows.
CUSTOM = re.compile(r"dev\.cdeventsx\.[a-zA-Z0-9]+-[a-zA-Z]+\.[a-zA-Z]+\.[0-9]\.[0-9]\.[0-9]")
STANDARD = re.compile(r"dev\.cdevents\.(pipelinerun|service)\.[a-z]+\.0\.3\.0")


def ended(**detail: Any) -> dict[str, Any]:
    return {**ENDED, "detail": {**ENDED["detail"], **detail}}


def test_a_first_deploy_is_a_service_deployed() -> None:
    body = cdevents.cloud_event(ENDED, url=URL)

    assert body == {
        "specversion": "1.0",
        "id": "e1",
        "source": URL,
        "type": "dev.cdevents.service.deployed.0.3.0",
        "subject": "shop",
        "time": ENDED["at"],
        "datacontenttype": "application/json",
        "data": {
            "context": {
                "specversion": "0.5.1",
                "id": "e1",
                "source": URL,
                "type": "dev.cdevents.service.deployed.0.3.0",
                "timestamp": ENDED["at"],
                "chainId": "d1",
            },
            "subject": {
                "id": "shop",
                "source": URL,
                "content": {
                    "environment": {"id": "production", "source": URL},
                    "artifactId": f"pkg:generic/shop@1.0%2Bb?checksum=sha256:{'ab' * 32}",
                },
            },
            "customData": ENDED,
            "customDataContentType": "application/json",
        },
    }


@pytest.mark.parametrize(
    ("detail", "predicate"),
    [
        ({"replaces": "d0"}, "service.upgraded"),
        ({"kind": "rollback", "replaces": "d0"}, "service.rolledback"),
        ({"outcome": "partial"}, "service.deployed"),
        ({"outcome": "rolled_back"}, "pipelinerun.finished"),
    ],
)
def test_an_end_has_its_word(detail: dict[str, Any], predicate: str) -> None:
    kind = cdevents.cloud_event(ended(**detail), url=URL)["type"]
    assert kind == f"dev.cdevents.{predicate}.0.3.0"


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        ("failed", "failure"),
        ("rolled_back", "failure"),
        ("poisoned", "error"),
        ("cancelled", "cancel"),
        ("superseded", "cancel"),
        ("something new", "error"),
    ],
)
def test_an_end_that_is_no_success_has_an_outcome(outcome: str, word: str) -> None:
    body = cdevents.cloud_event(ended(outcome=outcome, error={"message": "no"}), url=URL)
    assert body["data"]["subject"] == {
        "id": "d2",
        "source": URL,
        "content": {
            "pipelineName": "shop/production",
            "uri": f"{URL}/api/v1/deploys/d2",
            "outcome": word,
            "errors": "no",
        },
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("deploy.requested", "dev.cdevents.pipelinerun.queued.0.3.0"),
        ("deploy.started", "dev.cdevents.pipelinerun.started.0.3.0"),
        ("deploy.taken_over", "dev.cdeventsx.manent-deploy.takenOver.0.1.0"),
        ("lock.set", "dev.cdeventsx.manent-lock.set.0.1.0"),
    ],
)
def test_every_event_has_a_type(name: str, kind: str) -> None:
    event = {**ENDED, "type": name, "detail": {"lock": "l1"}}
    body = cdevents.cloud_event(event, url=URL)
    assert (body["type"], body["subject"]) == (kind, "d2")
    assert "outcome" not in body["data"]["subject"]["content"]


def test_an_event_of_no_deploy_has_a_subject_too() -> None:
    event = {**ENDED, "type": "lock.set", "deploy": None, "application": None, "detail": {}}
    assert cdevents.cloud_event(event, url=URL)["subject"] == "production"
    event["environment"] = None
    body = cdevents.cloud_event(event, url=URL)
    assert body["subject"] == "e1"
    assert "chainId" not in body["data"]["context"]


@pytest.mark.parametrize("name", events.KINDS)
def test_types_are_as_the_specification_wants_them(name: str) -> None:
    kind = cdevents.type_of(name)
    assert STANDARD.fullmatch(kind) or CUSTOM.fullmatch(kind)


@pytest.mark.parametrize("outcome", Outcome)
def test_no_outcome_is_without_a_type(outcome: Outcome) -> None:
    assert STANDARD.fullmatch(cdevents.type_of("deploy.ended", {"outcome": outcome}))


def test_a_name_without_letters_has_a_type_as_well() -> None:
    assert CUSTOM.fullmatch(cdevents.type_of("7"))


def test_the_page_names_every_event_and_type() -> None:
    page = cdevents.render_reference()
    assert all(f"| `{name}` |" in page for name in events.KINDS)
    for detail in ({}, {"replaces": "d0"}, {"kind": "rollback"}, {"outcome": "failed"}):
        kind = cdevents.cloud_event(ended(**detail), url=URL)["type"]
        assert f"`{kind}`" in page


# What the schemas of 0.5 let stand in each object, and no more; * is required.
FIELDS = {
    "data": {"context*", "subject*", "customData", "customDataContentType"},
    "context": {"specversion*", "id*", "source*", "type*", "timestamp*", "schemaUri", "chainId",
                "links"},
    "subject": {"id*", "source", "content*"},
    "environment": {"id*", "source"},
    "pipelinerun.queued": {"pipelineName", "uri"},
    "pipelinerun.started": {"pipelineName", "uri"},
    "pipelinerun.finished": {"pipelineName", "uri", "outcome", "errors"},
    "service.deployed": {"environment*", "artifactId*"},
    "service.upgraded": {"environment*", "artifactId*"},
    "service.rolledback": {"environment*", "artifactId*"},
}  # fmt: skip


def demand_fields(found: dict[str, Any], of: str) -> None:
    required = {name[:-1] for name in FIELDS[of] if name.endswith("*")}
    allowed = {name.rstrip("*") for name in FIELDS[of]}
    assert required <= found.keys() <= allowed, of
    for name in found.keys() - {"context", "subject", "content", "environment", "customData"}:
        assert isinstance(found[name], str), name
        assert found[name], name


@pytest.mark.parametrize("outcome", [*Outcome, "rollback", "first"])
@pytest.mark.parametrize("name", ["deploy.requested", "deploy.started", "deploy.ended"])
def test_a_standard_event_has_the_fields_its_schema_knows(name: str, outcome: str) -> None:
    detail = {"outcome": outcome, "replaces": "d0", "error": {"message": "exit 1"}}
    if outcome in ("rollback", "first"):
        detail |= {"outcome": "deployed", "kind": outcome, "replaces": None}
    body = cdevents.cloud_event({**ended(**detail), "type": name}, url=URL)
    data = body["data"]
    demand_fields(data, "data")
    demand_fields(data["context"], "context")
    demand_fields(data["subject"], "subject")
    content = data["subject"]["content"]
    demand_fields(content, body["type"].removeprefix("dev.cdevents.").removesuffix(".0.3.0"))
    if "environment" in content:
        demand_fields(content["environment"], "environment")
    assert content.get("outcome", "error") in {"success", "failure", "cancel", "error"}
    assert isinstance(data["customData"], dict)
