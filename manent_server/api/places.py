"""Routes of where things run: environments, applications, the inventory, what answers here."""

from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from manent_server.api import shapes
from manent_server.api.bodies import InventoryQuery
from manent_server.api.fields import Name
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked
from manent_server.domain.access import READ

MINIMUM_CLIENT = "0.1.0"
router = APIRouter(prefix=PREFIX, route_class=Route, tags=["places"])


@router.get("/inventory", response_model=shapes.InventoryRows, openapi_extra=needs(READ))
def inventory(asked: Asked, query: Annotated[InventoryQuery, Query()]) -> Any:
    """What runs on each target."""
    return asked.calls.inventory(
        asked.desk, application=query.application, environment=query.environment
    )


@router.get("/environments", response_model=shapes.Environments, openapi_extra=needs(READ))
def environments(asked: Asked) -> Any:
    """All environments."""
    return asked.calls.environments(asked.desk)


@router.get("/environments/{name}", response_model=shapes.Environment, openapi_extra=needs(READ))
def environment(name: Name, asked: Asked) -> Any:
    """One environment: slots, queue, locks, last end."""
    return asked.calls.environment(asked.desk, name)


@router.get("/applications", response_model=shapes.Applications, openapi_extra=needs(READ))
def applications(asked: Asked) -> Any:
    """All applications."""
    return asked.calls.applications(asked.desk)


@router.get("/version", response_model=shapes.ServerVersion, openapi_extra=needs(READ))
async def server_version(request: Request) -> Any:
    """Which build answers, and the oldest client it speaks with."""
    return {
        "version": version("manent"),
        "workflow_version": request.app.state.workflow_version,
        "minimum_client": MINIMUM_CLIENT,
    }
