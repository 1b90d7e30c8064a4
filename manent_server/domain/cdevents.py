"""An event as a CDEvent (0.5.1) inside a CloudEvent (1.0), for programs of others.

A deploy that works is `service.deployed`, `service.upgraded` or `service.rolledback`; its way
there and any other end are `pipelinerun.*`. What CDEvents has no word for is of a type of our
own, `dev.cdeventsx.manent-SUBJECT.PREDICATE`. The whole event as `/events` has it is in
`customData`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from manent_server.domain import events
from manent_server.domain.deploy import Kind, Outcome, State, state_of

SPEC: Final = "0.5.1"
CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"
_CUSTOM_VERSION: Final = "0.1.0"
_STANDARD_VERSION: Final = "0.3.0"
_RUN: Final = {events.REQUESTED: "queued", events.STARTED: "started"}
_NO_LETTER: Final = re.compile(r"[^a-zA-Z]")
# Of the ends that are no success: what CDEvents calls them.
_RUN_OUTCOMES: Final[Mapping[str, str]] = {
    **{outcome: "failure" for outcome in Outcome if state_of(outcome) == State.ERROR},
    **{outcome: "cancel" for outcome in Outcome if state_of(outcome) == State.CANCELLED},
    Outcome.POISONED: "error",
}


def type_of(event: str, detail: Mapping[str, Any] | None = None) -> str:
    """The type of the CDEvent for an event of this name.

    Args:
        event: The name.
        detail: Of an end: how it ended, and of which kind the deploy was.
    """
    if event in _RUN:
        return f"dev.cdevents.pipelinerun.{_RUN[event]}.{_STANDARD_VERSION}"
    if event == events.ENDED:
        return f"dev.cdevents.{_end(detail or {})}.{_STANDARD_VERSION}"
    subject, _, predicate = event.partition(".")
    return f"dev.cdeventsx.manent-{_word(subject)}.{_word(predicate)}.{_CUSTOM_VERSION}"


def cloud_event(event: Mapping[str, Any], *, url: str) -> dict[str, Any]:
    """The body of a webhook.

    Args:
        event: As `/events` shows it.
        url: The public address of this server, without a slash at its end.
    """
    kind = type_of(event["type"], event["detail"])
    subject = _subject(event, kind, url)
    data = {
        "context": _context(event, kind, url),
        "subject": subject,
        "customData": dict(event),
        "customDataContentType": "application/json",
    }
    return {
        "specversion": "1.0",
        "id": event["id"],
        "source": url,
        "type": kind,
        "subject": subject["id"],
        "time": event["at"],
        "datacontenttype": "application/json",
        "data": data,
    }


def _end(detail: Mapping[str, Any]) -> str:
    if not _is_good(detail):
        return "pipelinerun.finished"
    if detail.get("kind") == Kind.ROLLBACK:
        return "service.rolledback"
    return "service.upgraded" if detail.get("replaces") else "service.deployed"


def _is_good(detail: Mapping[str, Any]) -> bool:
    return detail.get("outcome") in (Outcome.DEPLOYED, Outcome.PARTIAL)


def _word(text: str) -> str:
    """Letters only, which is all a type may have there: `taken_over` is `takenOver`."""
    first, *rest = [word for word in _NO_LETTER.split(text) if word] or ["event"]
    return first + "".join(word.capitalize() for word in rest)


def _context(event: Mapping[str, Any], kind: str, url: str) -> dict[str, Any]:
    context = {
        "specversion": SPEC,
        "id": event["id"],
        "source": url,
        "type": kind,
        "timestamp": event["at"],
    }
    chain = event["detail"].get("root") or event["deploy"]
    return context | ({"chainId": chain} if chain else {})


def _subject(event: Mapping[str, Any], kind: str, url: str) -> dict[str, Any]:
    if kind.startswith("dev.cdevents.service."):
        return {
            "id": event["application"],
            "source": url,
            "content": {
                "environment": {"id": event["environment"], "source": url},
                "artifactId": _package(event),
            },
        }
    if kind.startswith("dev.cdevents.pipelinerun."):
        return {"id": event["deploy"], "source": url, "content": _run(event, url)}
    subject = event["deploy"] or event["application"] or event["environment"] or event["id"]
    return {"id": subject, "source": url, "content": dict(event["detail"])}


def _run(event: Mapping[str, Any], url: str) -> dict[str, Any]:
    content = {
        "pipelineName": f"{event['application']}/{event['environment']}",
        "uri": f"{url}/api/v1/deploys/{event['deploy']}",
    }
    if event["type"] != events.ENDED:
        return content
    error = event["detail"].get("error") or {}
    content["outcome"] = _RUN_OUTCOMES.get(event["detail"].get("outcome", ""), "error")
    return content | ({"errors": str(error["message"])} if error.get("message") else {})


def _package(event: Mapping[str, Any]) -> str:
    """The package URL of what was deployed."""
    detail = event["detail"]
    version = quote(str(detail.get("version")), safe="")
    name = quote(str(event["application"]), safe="")
    digest = detail.get("sha256")
    return f"pkg:generic/{name}@{version}" + (f"?checksum=sha256:{digest}" if digest else "")


_PAGE: Final = """# Events

What happens is told as events: in the stream `GET /api/v1/events`, to the receivers under `notify`
in manent.yml, and to plugins with the hook `deploy_event`. An event is
`{id, position, at, type, actor, deploy, application, environment, detail}`. `position` counts all
events of an installation without a hole, in the order in which they became known; `id` is the same
wherever the event is told, and however often.

A webhook carries the event as a [CDEvent](https://cdevents.dev) %s inside a
[CloudEvent](https://cloudevents.io) 1.0 (structured mode, `application/cloudevents+json`); the
event itself is its `customData`. How to receive one:
[be told what happens](../how-to/be-told-what-happens.md).

| Event | What happened | Type in a webhook |
|---|---|---|
"""
_ENDS: Final = (
    ("deployed", "service.deployed", "the first of its application there"),
    ("deployed", "service.upgraded", "any later one"),
    ("deployed", "service.rolledback", "of kind rollback"),
    ("any other", "pipelinerun.finished", "`outcome` is failure, cancel or error"),
)


def render_reference() -> str:
    """The page that lists every event, as Markdown."""
    rows = [
        f"| `{name}` | {meaning} | {_shown_type(name)} |"
        for name, meaning in sorted(events.KINDS.items())
    ]
    ends = [
        f"| {outcome} | `dev.cdevents.{word}.{_STANDARD_VERSION}` | {when} |"
        for outcome, word, when in _ENDS
    ]
    return "\n".join(
        [
            _PAGE % SPEC + "\n".join(rows),
            "",
            f"`{events.NOTICES}*` stand in the stream and in the record alone: nobody is sent a "
            "notice about notices.",
            "",
            f"## The type of `{events.ENDED}`",
            "",
            "| Outcome | Type | When |",
            "|---|---|---|",
            *ends,
            "",
        ]
    )


def _shown_type(name: str) -> str:
    if name == events.ENDED:
        return "by its outcome, below"
    return "-" if name.startswith(events.NOTICES) else f"`{type_of(name)}`"
