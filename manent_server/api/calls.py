"""The use cases the routes call, named in one place."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

Call = Callable[..., Any]


@dataclass(frozen=True)
class Calls:
    """One callable a use case; each takes the desk first."""

    submit: Call
    roll_back: Call
    cancel: Call
    lock: Call
    unlock: Call
    deploys: Call
    deploy: Call
    steps: Call
    attempts: Call
    log: Call
    explain: Call
    inventory: Call
    environments: Call
    environment: Call
    applications: Call
    locks: Call
    authenticate: Call
    ready: Call


def usecases() -> Calls:
    """The real ones."""

    def find(place: str) -> Call:
        module, name = place.split(".")
        found: Call = getattr(import_module(f"manent_server.usecases.{module}"), name)
        return found

    return Calls(
        submit=find("submit.submit"),
        roll_back=find("roll_back.roll_back"),
        cancel=find("cancel.cancel"),
        lock=find("lock.lock"),
        unlock=find("lock.unlock"),
        deploys=find("inspect.deploys"),
        deploy=find("inspect.deploy"),
        steps=find("inspect.steps"),
        attempts=find("inspect.attempts"),
        log=find("inspect.log"),
        explain=find("explain.explain"),
        inventory=find("inspect.inventory"),
        environments=find("inspect.environments"),
        environment=find("inspect.environment"),
        applications=find("inspect.applications"),
        locks=find("inspect.locks"),
        authenticate=find("tokens.authenticate"),
        ready=find("health.ready"),
    )
