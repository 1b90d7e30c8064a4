"""The policy in force: manent.yml as rows, never overwriting what is newer."""

import logging
from collections.abc import Callable
from typing import Any

from manent_server.domain import basis, rules
from manent_server.domain import order as orders
from manent_server.domain.access import Grant
from manent_server.domain.basis import Granted
from manent_server.domain.errors import Conflict
from manent_server.settings.values import Access, Environment, Settings
from manent_server.store import deploys, policy, records
from manent_server.store.records import Deed
from manent_server.store.repeat import never
from manent_server.store.transaction import Store, Transaction
from manent_server.usecases import needs
from manent_server.usecases.needs import Need

_log = logging.getLogger(__name__)


def write(
    store: Store,
    settings: Settings,
    *,
    release: str,
    by: str,
    stop: Callable[[], bool] = never,
) -> bool:
    """Put the settings in force.

    Returns:
        False if the rows are newer than these settings: by release, then by the time the
        files were changed. They are left as they are.
    """
    written = store.repeat(lambda tx: _write(tx, settings, release, by), stop=stop)
    if not written:
        _log.warning(
            "the policy in force is newer than %s; this process leaves it as it is", settings.path
        )
    return written


def _write(tx: Transaction, settings: Settings, release: str, by: str) -> bool:
    current = policy.lock_current(tx)
    mark = digest(settings)
    if current is not None:
        if current.digest == mark:
            return True
        mine = (_parts(release), settings.modified_at)
        if mine < (_parts(current.release), current.configured_at):
            return False
    revision = policy.write_revision(
        tx,
        policy.Revision(
            mark,
            release,
            settings.modified_at,
            by,
            people_values(settings.access),
            grant_values(settings.access),
        ),
    )
    for environment in sorted(settings.environments.values(), key=lambda e: e.name):
        policy.write_environment(tx, environment_values(environment), revision=revision)
    for name, application in sorted(settings.applications.items()):
        places = sorted(application.environments)
        policy.write_application(tx, name, places, revision=revision)
    policy.retire(tx, revision=revision)
    before = {"digest": current.digest, "release": current.release} if current else None
    after = {"digest": mark, "release": release}
    deed = Deed(by, "policy.written", detail={"revision": revision}, before=before, after=after)
    records.write_audit(tx, deed, at=tx.now())
    return True


def environment_values(environment: Environment) -> dict[str, Any]:
    """The columns admission reads."""
    return {
        "name": environment.name,
        "tier": environment.tier,
        "pool": environment.pool,
        "concurrency": environment.concurrency,
        "rules": rules.dump(environment.rules),
    }


def people_values(access: Access) -> dict[str, Any]:
    """Who is who, as votes are counted by it: plain ids, and with the system they are of."""
    return {
        login: {
            "groups": list(one.groups),
            "handles": [
                *one.principals,
                *one.ids.values(),
                *(f"{system}:{id_there}" for system, id_there in one.ids.items()),
            ],
        }
        for login, one in sorted(access.people.items())
    }


def grant_values(access: Access) -> dict[str, Any]:
    """What groups and trust rules give: votes are counted by it too."""
    trust = {
        name: (Grant(rule.role, rule.applications, rule.environments),)
        for name, rule in access.trust.items()
    }
    return basis.dump(Granted(access.roles, trust))


def digest(settings: Settings) -> str:
    """SHA-256 of what the rows hold; other settings of a process are its own affair."""
    environments = [environment_values(e) for _, e in sorted(settings.environments.items())]
    places = [[name, sorted(a.environments)] for name, a in sorted(settings.applications.items())]
    people = people_values(settings.access)
    known = settings.access
    granted = [grant_values(known)] if known.roles or known.trust else []
    return orders.digest([environments, places, *([people] if people else []), *granted])


def _parts(release: str) -> tuple[tuple[int, str], ...]:
    """A release as something that compares: numbers by value, words by letter."""
    parts = release.replace("-", ".").replace("+", ".").split(".")
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)


def demand_may_go(tx: Transaction, before: Settings | None, after: Settings) -> list[Need]:
    """Refuse to drop an application, or its place in an environment, under a live deploy.

    Args:
        tx: For reading.
        before: What is lacking there is no news; None where nobody knows what was in force.
        after: What is to be in force.

    Returns:
        Targets that go although live deploys visit them: these end as they were accepted.

    Raises:
        Conflict: Naming the deploys and what they need.
    """
    live = [needs.of_row(row) for row in deploys.live(tx)]
    known = needs.missing(live, before) if before is not None else ()
    lacking = {(need.deploy, need.what, need.name) for need in known}
    fresh = [
        need
        for need in needs.missing(live, after)
        if (need.deploy, need.what, need.name) not in lacking
    ]
    binding = [need for need in fresh if need.is_binding]
    if binding:
        gone = "; ".join(need.words for need in binding)
        raise Conflict(
            f"what live deploys need would be dropped: {gone}",
            code="deploys_live",
            next="wait for them or cancel them, then reload",
        )
    return fresh


def differs(store: Store, settings: Settings) -> bool:
    """Whether the policy in force is another than this process read."""
    with store.read() as tx:
        current = policy.current(tx)
    return current is not None and current.digest != digest(settings)
