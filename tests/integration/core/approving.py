"""People who approve, in a core whose production asks them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from manent_server.domain import access, basis
from manent_server.domain.access import Caller, Grant
from manent_server.domain.approval import Rule
from manent_server.domain.basis import Granted
from manent_server.observability.redaction import Redactor
from manent_server.usecases import decide, inbox, submit
from manent_server.usecases.requests import ApprovalFilter, Decision, DeployRequest
from manent_server.worker.resolving import Resolving
from tests.rig.core import Core

ADMIN = access.everywhere("admin")
APPROVER = access.everywhere("approver")
DAY = timedelta(days=1)


def person(name: str, *groups: str, **more: Any) -> Caller:
    """Somebody who may approve."""
    values = {"kind": "person", "groups": frozenset(groups)} | more
    return Caller(name, APPROVER, **values)


def program(name: str, *groups: str, **more: Any) -> Caller:
    """A program with every right."""
    return Caller(name, ADMIN, kind="service", groups=frozenset(groups), **more)


ANN = Caller("ann", ADMIN, kind="person")
BOB, EVE, JOE = person("bob", "sre"), person("eve", "sre"), person("joe", "sre")
RULE = Rule("release", quorum=1, expires=DAY)


def ask(core: Core, *rules: Rule, environment: str = "staging") -> None:
    """Let an environment ask for approval."""
    known = core.settings.environments[environment].rules
    core.change_environment(environment, rules=replace(known, approvals=rules or (RULE,)))


def list_people(core: Core, **people: dict[str, Any]) -> None:
    """Who is who: by login, `groups` and `handles`."""
    body = {
        login: {"groups": list(one.get("groups", ())), "handles": list(one.get("handles", ()))}
        for login, one in people.items()
    }
    with core.store.write() as tx:
        tx.connection.execute(sa.update(tx.tables.policies).values(people=body))


def list_grants(core: Core, **groups: Grant) -> None:
    """What each group may."""
    body = basis.dump(Granted({group: (grant,) for group, grant in groups.items()}))
    with core.store.write() as tx:
        tx.connection.execute(sa.update(tx.tables.policies).values(grants=body))


def no_artifact(url: str, sha256: str | None) -> str:
    raise AssertionError(f"nobody asked for {url} {sha256}")


def resolve(core: Core, digest: Any = no_artifact) -> None:
    """Find out what is to be approved, as a worker does."""
    loop = Resolving(core.desk, digest, Redactor())
    loop.round()
    loop.wait()
    loop.round()


def request(core: Core, version: str = "1", *, by: Caller = ANN, **more: Any) -> str:
    """Ask for a deploy that waits for approval; its id."""
    digest = more.pop("digest", no_artifact)
    wanted = DeployRequest("shop", more.pop("environment", "staging"), version, **more)
    deploy = str(submit.submit(core.desk, wanted, caller=by)["id"])
    resolve(core, digest)
    return deploy


def asked(core: Core, deploy: str, state: str | None = "waiting") -> list[dict[str, Any]]:
    """What a deploy asks."""
    wanted = ApprovalFilter(deploy=deploy, state=state)
    items = inbox.approvals_of(core.desk, wanted, caller=ANN)["items"]
    return list(reversed(items))


def say(  # noqa: PLR0913 - who says what to what, and why
    core: Core,
    deploy: str,
    by: Caller,
    decision: str = "approve",
    *,
    rule: str | None = None,
    comment: str | None = None,
) -> dict[str, Any]:
    """Let somebody decide about what a deploy asks."""
    found = [one for one in asked(core, deploy, None) if rule in (None, one["rule"])]
    given = Decision(decision, comment or ("no" if decision == "reject" else None))
    return decide.decide(core.desk, found[-1]["id"], given, caller=by)


def kinds(core: Core, deploy: str) -> list[str]:
    """What is on record of a deploy, in order."""
    rows = sorted(core.rows("events"), key=lambda row: row["entry"])
    return [row["type"] for row in rows if row["deploy"] == deploy]
