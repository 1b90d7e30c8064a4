"""What a hook is told: the context of one attempt, made from rows alone.

Every attempt of a deploy sees the snapshot that `prepare` stored, wherever it runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manent_server.domain.errors import ManentError
from manent_server.domain.order import Order
from manent_server.domain.plan import Step
from manent_server.domain.secret import Secret
from manent_server.engine.run import Run
from manent_server.plugins.host import Host
from manent_server.settings.fill import CONFIG_PREFIX, fill, is_template
from manent_server.store.deploys import Deploy
from manent_server.store.work import StepRow


class ConfigurationMissing(ManentError):
    """A `config://` reference names a key the snapshot does not hold."""

    code = "configuration_missing"


@dataclass(frozen=True)
class Aim:
    """What must be in place on a target, what it replaces, and the snapshot to use."""

    version: str
    from_version: str | None
    artifact: Mapping[str, Any] | None
    configuration: Mapping[str, Any]


def forward(run: Run, step: Step) -> Aim:
    """Towards the version that was asked for."""
    past = run.prepared["past"].get(step.target)
    return Aim(
        version=run.deploy.version,
        from_version=past["version"] if past else None,
        artifact=run.prepared["artifacts"].get(step.target),
        configuration=run.prepared["configuration"],
    )


def backward(run: Run, step: Step) -> Aim:
    """Back to what the target ran before, with that deploy's digest and configuration."""
    past = run.prepared["past"][step.target]
    return Aim(
        version=past["version"],
        from_version=run.deploy.version,
        artifact=past["artifact"],
        configuration=past["configuration"],
    )


@dataclass(frozen=True)
class Handed:
    """The facts of one hand-out."""

    attempt: int
    checkpoint: Any
    workdir: Path


def context(
    run: Run, step: Step, aim: Aim, handed: Handed, rows: Mapping[str, StepRow]
) -> tuple[dict[str, Any], frozenset[Secret]]:
    """The context as JSON, secrets resolved, and the secret values that are in it.

    Raises:
        ManentError: A secret or configuration key is missing; the artifact cannot be had.
    """
    deploy = run.deploy
    place = Place(deploy, run.order, step.target or "")
    options = configured(filled(run.shop.host, place, version=aim.version), aim.configuration)
    options, secrets = run.shop.secrets.fill(options)
    run.shop.redactor.add(secrets)
    past = run.prepared["past"].get(step.target)
    done = [row for row in rows.values() if row.state == "succeeded"]
    return {
        "deploy": deploy.id,
        "kind": deploy.kind,
        "application": deploy.application,
        "environment": deploy.environment,
        "target": step.target,
        "options": options,
        "version": aim.version,
        "from_version": aim.from_version,
        "artifact": _fetched(run, aim),
        "configuration": dict(aim.configuration),
        "secrets": {},
        "previous": past and {"version": past["version"], "outputs": past["outputs"] or {}},
        "outputs": _outputs(step, rows),
        "idempotency_key": f"{deploy.root}/{step.name}/{deploy.pass_number}",
        "attempt": handed.attempt,
        "epoch": deploy.epoch,
        "checkpoint": handed.checkpoint,
        "completed": [row.name for row in sorted(done, key=lambda row: row.position)],
        "workdir": str(handed.workdir),
    }, secrets


def _outputs(step: Step, rows: Mapping[str, StepRow]) -> dict[str, Any]:
    for acting in ("deploy", "rollback"):
        row = rows.get(f"{acting}:{step.target}")
        if row is not None and row.name != step.name and row.outputs:
            return dict(row.outputs)
    return {}


def _fetched(run: Run, aim: Aim) -> dict[str, str] | None:
    if aim.artifact is None:
        return None
    fetched = run.shop.artifacts.fetch(aim.artifact["url"], sha256=aim.artifact["sha256"])
    return {"path": str(fetched.path), "sha256": fetched.sha256}


@dataclass(frozen=True)
class Place:
    """One target of a deploy."""

    deploy: Deploy
    order: Order
    target: str


def filled(host: Host, place: Place, *, version: str) -> Any:
    """The target's options with `{version}` and its like filled in where the plugin says so."""
    templates = host.plugin(place.order.plugin).templates
    values = {
        "application": place.deploy.application,
        "environment": place.deploy.environment,
        "target": place.target,
        "version": version,
    }

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, Mapping):
            return {k: walk(v, f"{path}.{k}" if path else k) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [walk(item, path) for item in value]
        is_filled = isinstance(value, str) and is_template(path, templates)
        return fill(value, **values) if is_filled else value

    return walk(place.order.targets[place.target], "")


def configured(value: Any, configuration: Mapping[str, Any]) -> Any:
    """It, with what its `config://` references name in the snapshot."""
    if isinstance(value, Mapping):
        return {key: configured(item, configuration) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [configured(item, configuration) for item in value]
    if not isinstance(value, str) or not value.startswith(CONFIG_PREFIX):
        return value
    key = value.removeprefix(CONFIG_PREFIX)
    if key not in configuration:
        raise ConfigurationMissing(
            f"{value}: the configuration of this deploy has no key {key}",
            next="add the key to the configuration source, or take the reference out",
        )
    return configuration[key]
