"""Assertions: what the token of an identity provider says, once its signature is known good."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from manent_server.domain.errors import NotSignedIn

LEEWAY: Final = timedelta(seconds=30)
"""By how much the provider's clock may be wrong."""
LONGEST: Final = timedelta(hours=24)
"""A token that is good for longer than this is no proof of who asks now."""

Claims = Mapping[str, Any]

_OF_PULL_REQUESTS: Final = {
    "event_name": frozenset(
        {
            "pull_request",
            "pull_request_target",
            "pull_request_review",
            "pull_request_review_comment",
        }
    ),
    "pipeline_source": frozenset({"merge_request_event", "external_pull_request_event"}),
}
_REFS_OF_PULL_REQUESTS: Final = ("refs/pull/", "refs/merge-requests/")
# What the issuers of jobs say of them, and nobody of a person: GitHub, GitLab, Kubernetes, others.
_OF_JOBS: Final = (
    "job_workflow_ref",
    "workflow_ref",
    "repository_id",
    "run_id",
    "ci_config_ref_uri",
    "pipeline_source",
    "pipeline_id",
    "project_id",
    "job_id",
    "kubernetes.io",
    "pipelineUuid",
    "pipeline_slug",
    "oidc.circleci.com/project-id",
)
# Where the id of what was built stands, and of the person that had it built; by system.
_BUILDS: Final = {"github": ("repository_id", "actor_id"), "gitlab": ("project_id", "user_id")}


class AssertionRefused(NotSignedIn):
    """A token of an identity provider that is not believed, and why (401)."""

    code = "assertion_refused"

    def __init__(self, why: str) -> None:
        super().__init__(f"the identity token is refused: {why}", next="ask for a new one")


@dataclass(frozen=True)
class Build:
    """What a CI job builds, and for whom: ids as text, which nobody can take over."""

    repository: str
    system: str | None
    actor: str | None


def demand(claims: Claims, *, issuer: str, audience: str, at: datetime) -> None:
    """Refuse a token that is of somebody else, for somebody else, or not good at this instant.

    Raises:
        AssertionRefused: Saying which of its claims is wrong.
    """
    if claims.get("iss") != issuer:
        raise AssertionRefused("its issuer is another one")
    _demand_audience(claims, audience)
    _demand_time(claims, at)
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject or not subject.isprintable():
        raise AssertionRefused("it names no subject")


def is_for(claims: Claims, audience: str) -> bool:
    """Whether the audience is named in it."""
    return audience in _audiences(claims)


def _audiences(claims: Claims) -> Sequence[Any]:
    found = claims.get("aud")
    return found if isinstance(found, list) else [found]


def _demand_audience(claims: Claims, audience: str) -> None:
    if not is_for(claims, audience):
        raise AssertionRefused(f"its audience (aud) is not {audience}")
    # It was made for one of several, and that one has to be us.
    if claims.get("azp", audience) != audience and len(_audiences(claims)) > 1:
        raise AssertionRefused("it was made for another client (azp)")


def _demand_time(claims: Claims, at: datetime) -> None:
    ends, begins = _instant(claims, "exp"), _instant(claims, "iat")
    since = _instant(claims, "nbf") if "nbf" in claims else begins
    now = at.timestamp()
    leeway = LEEWAY.total_seconds()
    if ends + leeway <= now:
        raise AssertionRefused("it has expired (exp)")
    if max(begins, since) - leeway > now:
        raise AssertionRefused("it is not good yet (iat, nbf)")
    if ends - begins > LONGEST.total_seconds():
        raise AssertionRefused("it is good for longer than a day (exp)")


def _instant(claims: Claims, name: str) -> float:
    found = claims.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 2**40:
        raise AssertionRefused(f"its {name} is no time")
    return float(found)


def of_job(claims: Claims) -> str | None:
    """The claim that says that a job had it made, if one does.

    An issuer may serve people and jobs alike, and a job chooses its audience: with that of people
    it would be one more person, in the groups of whoever had it run.
    """
    return next((name for name in _OF_JOBS if name in claims), None)


def is_made_for(claims: Claims, client: str) -> bool:
    """Whether a client got it itself: what a person got at another is read by whoever runs that."""
    return is_for(claims, client) and claims.get("azp", client) == client


def demand_no_pull_request(claims: Claims) -> None:
    """Refuse what strangers can make run: whoever opens a pull request writes its code.

    Raises:
        AssertionRefused: It is of a pull or merge request.
    """
    for name, values in _OF_PULL_REQUESTS.items():
        if str(claims.get(name)) in values:
            raise AssertionRefused(f"runs of pull requests may not sign in ({name})")
    for name in ("ref", "ref_path"):
        if str(claims.get(name, "")).startswith(_REFS_OF_PULL_REQUESTS):
            raise AssertionRefused(f"runs of pull requests may not sign in ({name})")


def matches(claims: Claims, wanted: Mapping[str, Sequence[str]]) -> bool:
    """Whether it has one of the values of every claim that is asked for."""
    return bool(wanted) and all(text(claims.get(name)) in values for name, values in wanted.items())


def text(value: Any) -> str | None:
    """A claim as text: ids come as numbers or as text; lists and maps equal nothing."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None


def build(claims: Claims) -> Build:
    """What the job builds, and for whom."""
    for system, (repository, actor) in _BUILDS.items():
        found = text(claims.get(repository))
        if found:
            return Build(found, system, text(claims.get(actor)))
    return Build(str(claims.get("sub")), None, None)


def groups(claims: Claims, claim: str | None) -> tuple[str, ...]:
    """The groups a person is in, as its provider says."""
    found = claims.get(claim) if claim is not None else None
    listed = [found] if isinstance(found, str) else found
    if not isinstance(listed, list):
        return ()
    return tuple(sorted({one for one in listed if isinstance(one, str) and one.isprintable()}))
