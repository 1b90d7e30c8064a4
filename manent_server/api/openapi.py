"""The OpenAPI document: FastAPI's, with every refusal and the way in written down."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from manent_server.api import problem, shapes
from manent_server.api.route import PREFIX
from manent_server.api.signin import PUBLIC

_COMMON = (401, 403, 404, 409, 422, 429, 431, 500, 503)
_WITH_BODY = (400, 408, 413, 415)
_WORDS = {status.code: status.title for status in problem.STATUS.values()} | problem.TITLES
_WORDS |= {409: "In conflict with the present state, or refused by policy", 422: "Not acceptable"}


def install(app: FastAPI) -> None:
    """Let the application answer with our document."""
    # FastAPI's own way to replace its document.
    app.openapi = lambda: _once(app)  # type: ignore[method-assign]


def describe(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """The document of these routes."""
    found = get_openapi(
        title="manent",
        version=version("manent"),
        description="Deploys that survive crashes. Every refusal is a problem body (RFC 9457).",
        routes=routes,
    )
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas.update(_problem_schemas())
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in found["paths"].items():
        for operation in operations.values():
            if path.startswith(PREFIX):
                _refusals(operation)
            if path not in PUBLIC:
                operation["security"] = [{"token": []}]
    return found


def _once(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = describe(app.routes)
    return app.openapi_schema


def _refusals(operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    for code in _COMMON + (_WITH_BODY if "requestBody" in operation else ()):
        responses[str(code)] = _refusal(code)
    operation["responses"] = dict(sorted(responses.items()))


def _refusal(code: int) -> dict[str, Any]:
    body = {"schema": {"$ref": "#/components/schemas/ProblemBody"}}
    found: dict[str, Any] = {
        "description": _WORDS[code],
        "content": {problem.MEDIA_TYPE: body},
    }
    if code in problem.HEADERS:
        found["headers"] = {name: {"schema": {"type": "string"}} for name in problem.HEADERS[code]}
    return found


def _problem_schemas() -> dict[str, Any]:
    schema = shapes.ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
    inner = schema.pop("$defs", {})
    return {"ProblemBody": schema, **inner}
