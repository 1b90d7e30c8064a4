"""Every route of the API, declared: which right it needs and what of, and how to ask it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from manent_server.api.route import PUBLIC, SIGNED_IN
from manent_server.domain import access
from manent_server.domain.marks import Sort
from manent_server.usecases import mark
from manent_server.usecases import schedule as scheduling
from manent_server.usecases.requests import MarkRequest, ScheduleRequest
from tests.integration.core.approving import ask, resolve
from tests.rig.core import ADMIN, Core


@dataclass(frozen=True)
class Place:
    """A place and what there is of it: made anew for whoever walks the routes."""

    application: str
    environment: str
    deploy: str
    schedule: str
    approval: str
    marks: Mapping[Sort, str]

    @property
    def words(self) -> set[str]:
        """What nobody may read who does not see the place."""
        return {
            f'"{self.application}"',
            f'"{self.environment}"',
            self.deploy,
            self.schedule,
            self.approval,
            *(mark for sort, mark in self.marks.items() if sort != Sort.STOP),
        }


def furnish(core: Core, application: str, environment: str) -> Place:
    """A deploy that waits for approval, a schedule and a mark of each sort there."""
    ask(core, environment=environment)
    deploy = core.submit(application, environment)
    resolve(core)
    approval = next(row["id"] for row in core.rows("approvals") if row["deploy"] == deploy)
    request = ScheduleRequest(
        f"nightly-{deploy}", application, environment, "0 2 * * *", version="1"
    )
    scheduling.schedule(core.desk, request, caller=ADMIN)
    marks = {}
    for sort in Sort:
        version = "9" if sort == Sort.VETO else None
        where = (None, None) if sort == Sort.STOP else (application, environment)
        made = mark.put(core.desk, MarkRequest(sort, "audit", *where, version), caller=ADMIN)
        marks[sort] = made["id"]
    return Place(application, environment, deploy, request.name, approval, marks)


class Of(Enum):
    """What a route is about."""

    PLACE = "one place: 404 for whoever does not see it"
    LIST = "what one may see, and nothing of the rest"
    ALL = "everything: only with the right everywhere"
    NOTHING = "nothing in particular"
    ONESELF = "whoever asks, whatever it was granted"
    NOBODY = "nothing: it needs no token"


@dataclass(frozen=True)
class Asks:
    """How a route is asked about a place, and what it needs."""

    right: str
    of: Of
    path: Callable[[Place], str] = lambda _: ""
    body: Callable[[Place], Any] = lambda _: None


def _where(place: Place) -> dict[str, str]:
    return {"application": place.application, "environment": place.environment}


def _deploy(right: str, tail: str = "", body: Any = None) -> Asks:
    return Asks(right, Of.PLACE, lambda p: f"/deploys/{p.deploy}{tail}", lambda _: body)


def _wish(right: str, path: str, **more: Any) -> Asks:
    return Asks(right, Of.PLACE, lambda _: path, lambda p: _where(p) | more)


def _list(path: str) -> Asks:
    return Asks(access.READ, Of.LIST, lambda _: path)


def _mark(sort: Sort, right: str, of: Of = Of.PLACE) -> Asks:
    return Asks(right, of, lambda p: f"/{mark.PATHS[sort]}/{p.marks[sort]}")


def _approval(right: str, tail: str = "", body: Any = None) -> Asks:
    return Asks(right, Of.PLACE, lambda p: f"/approvals/{p.approval}{tail}", lambda _: body)


def _schedule(right: str, tail: str = "") -> Asks:
    return Asks(right, Of.PLACE, lambda p: f"/schedules/{p.schedule}{tail}")


def _all(right: str, path: str, body: Any = None) -> Asks:
    return Asks(right, Of.ALL, lambda _: path, lambda _: body)


_WHY = {"reason": "audit"}
_CRON = {"cron": "0 2 * * *", "timezone": "UTC"}
_DEPLOY = "/deploys/{address:address}"

ROUTES: Final[Mapping[tuple[str, str], Asks]] = {
    ("POST", "/deploys"): _wish(access.DEPLOY, "/deploys", version="2"),
    ("POST", "/plans"): _wish(access.READ, "/plans", version="2"),
    ("GET", "/deploys"): _list("/deploys"),
    ("POST", "/promotions"): Asks(
        access.DEPLOY,
        Of.PLACE,
        lambda _: "/promotions",
        lambda p: {"application": p.application, "from": "manual", "to": p.environment},
    ),
    ("POST", "/rollbacks"): _wish(access.ROLLBACK, "/rollbacks", **_WHY),
    ("GET", f"{_DEPLOY}/steps"): _deploy(access.READ, "/steps"),
    ("GET", f"{_DEPLOY}/attempts"): _deploy(access.READ, "/attempts"),
    ("GET", f"{_DEPLOY}/explain"): _deploy(access.READ, "/explain"),
    ("POST", f"{_DEPLOY}/cancel"): _deploy(access.CANCEL, "/cancel", {}),
    ("POST", f"{_DEPLOY}/skip-wait"): _deploy(access.OVERRIDE, "/skip-wait", _WHY),
    ("POST", f"{_DEPLOY}/abandon"): _deploy(access.CANCEL, "/abandon", _WHY),
    ("POST", f"{_DEPLOY}/resolve"): _deploy(access.RESOLVE, "/resolve", {"answer": "retry"}),
    ("GET", f"{_DEPLOY}/rerun"): _deploy(access.READ, "/rerun"),
    ("POST", f"{_DEPLOY}/rerun"): _deploy(access.DEPLOY, "/rerun", {"from": "prepare"}),
    ("POST", f"{_DEPLOY}/retry"): _deploy(access.DEPLOY, "/retry", {}),
    ("GET", _DEPLOY): _deploy(access.READ),
    ("GET", f"{_DEPLOY}/logs"): _deploy(access.READ, "/logs"),
    ("POST", f"{_DEPLOY}/regate"): _deploy(access.OVERRIDE, "/regate", _WHY),
    ("GET", "/approvals"): _list("/approvals"),
    ("GET", "/approvals/{address}"): _approval(access.READ),
    ("POST", "/approvals/{address}/decisions"): _approval(
        access.APPROVE, "/decisions", {"decision": "approve"}
    ),
    ("GET", "/admin/restore"): _all(access.AUDIT, "/admin/restore"),
    ("POST", "/admin/restore/resume"): _all(
        access.ADMINISTER, "/admin/restore/resume", {"all": True}
    ),
    ("POST", "/admin/restore/close"): _all(
        access.ADMINISTER, "/admin/restore/close", {"all": True, "outcome": "deployed"}
    ),
    ("POST", "/admin/restore/cancel"): _all(
        access.ADMINISTER, "/admin/restore/cancel", {"all": True}
    ),
    ("POST", "/admin/restore/open"): _all(
        access.ADMINISTER, "/admin/restore/open", {"force": True} | _WHY
    ),
    ("GET", "/audit"): Asks(
        access.AUDIT,
        Of.PLACE,
        lambda p: f"/audit?application={p.application}&environment={p.environment}",
    ),
    ("GET", "/inventory"): _list("/inventory"),
    ("GET", "/environments"): _list("/environments"),
    ("GET", "/environments/{name}"): Asks(
        access.READ, Of.PLACE, lambda p: f"/environments/{p.environment}"
    ),
    ("GET", "/applications"): _list("/applications"),
    ("GET", "/dora"): _list("/dora"),
    ("GET", "/version"): Asks(access.READ, Of.NOTHING, lambda _: "/version"),
    ("GET", "/marks"): _list("/marks"),
    **{("GET", f"/{mark.PATHS[sort]}"): _list(f"/{mark.PATHS[sort]}") for sort in Sort},
    ("POST", "/locks"): _wish(access.LOCK, "/locks", **_WHY),
    ("POST", "/freezes"): _wish(access.LOCK, "/freezes", **_WHY),
    ("POST", "/holds"): _wish(access.LOCK, "/holds", **_WHY),
    ("POST", "/vetoes"): _wish(access.LOCK, "/vetoes", **_WHY, version="9"),
    ("POST", "/stops"): _all(access.STOP, "/stops", _WHY),
    ("DELETE", "/locks/{lock_id}"): _mark(Sort.LOCK, access.LOCK),
    ("DELETE", "/freezes/{freeze_id}"): _mark(Sort.FREEZE, access.LOCK),
    ("DELETE", "/holds/{hold_id}"): _mark(Sort.HOLD, access.LOCK),
    ("DELETE", "/vetoes/{veto_id}"): _mark(Sort.VETO, access.LOCK),
    ("DELETE", "/stops/{stop_id}"): _mark(Sort.STOP, access.RESUME, Of.ALL),
    ("GET", "/schedules"): _list("/schedules"),
    ("POST", "/schedules"): _wish(
        access.SCHEDULE, "/schedules", name="other", version="1", **_CRON
    ),
    ("POST", "/schedules/preview"): Asks(
        access.SCHEDULE, Of.NOTHING, lambda _: "/schedules/preview", lambda _: _CRON
    ),
    ("GET", "/schedules/{name}"): _schedule(access.READ),
    ("GET", "/schedules/{name}/preview"): _schedule(access.READ, "/preview"),
    ("GET", "/schedules/{name}/runs"): _schedule(access.READ, "/runs"),
    ("POST", "/schedules/{name}/pause"): _schedule(access.SCHEDULE, "/pause"),
    ("POST", "/schedules/{name}/resume"): _schedule(access.SCHEDULE, "/resume"),
    ("DELETE", "/schedules/{name}"): _schedule(access.SCHEDULE),
    ("GET", "/events"): _list("/events?after=0&limit=500"),
    ("GET", "/notices"): _list("/notices"),
    ("POST", "/notices/{notice}/resend"): _all(access.ADMINISTER, "/notices/NOTICE/resend", {}),
    ("GET", "/sinks"): _all(access.READ, "/sinks"),
    ("POST", "/sinks/{name}/resend"): _all(access.ADMINISTER, "/sinks/board/resend", {}),
    ("GET", "/links"): Asks(access.READ, Of.NOTHING, lambda _: "/links"),
    # Whose account a code is for is not asked here: no code, no person, 422.
    ("POST", "/links"): Asks(access.READ, Of.NOTHING, lambda _: "/links", lambda _: {}),
    ("POST", "/links/remove"): Asks(
        access.READ, Of.NOTHING, lambda _: "/links/remove", lambda _: {}
    ),
    ("GET", "/admin/executors"): _all(access.READ, "/admin/executors"),
    ("POST", "/admin/recover"): _all(access.ADMINISTER, "/admin/recover", {"executor": "gone"}),
    ("POST", "/admin/prune"): _all(
        access.ADMINISTER, "/admin/prune", {"dry_run": True, "max_age": "1h"}
    ),
    ("POST", "/admin/reload"): _all(access.ADMINISTER, "/admin/reload", {}),
    ("DELETE", "/admin/executors/{executor}"): _all(access.ADMINISTER, "/admin/executors/gone"),
    ("GET", "/auth/providers"): Asks(PUBLIC, Of.NOBODY, lambda _: "/auth/providers"),
    ("POST", "/auth/sessions"): Asks(
        PUBLIC, Of.NOBODY, lambda _: "/auth/sessions", lambda _: {"assertion": "none"}
    ),
    ("GET", "/auth"): Asks(SIGNED_IN, Of.ONESELF, lambda _: "/auth"),
    ("DELETE", "/auth"): Asks(SIGNED_IN, Of.ONESELF, lambda _: "/auth"),
    ("GET", "/sessions"): _all(access.GRANT, "/sessions"),
    ("DELETE", "/sessions/{session_id}"): _all(access.GRANT, "/sessions/gone"),
    ("GET", "/tokens"): _all(access.GRANT, "/tokens"),
    ("POST", "/tokens"): _all(access.GRANT, "/tokens", {"name": "ci", "role": "admin"}),
    ("DELETE", "/tokens/{token_id}"): _all(access.GRANT, "/tokens/gone"),
}
"""A route that is missing here is one whose access nobody has thought of: a test says so."""
