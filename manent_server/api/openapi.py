"""The OpenAPI document: FastAPI's, with every refusal and the way in written down."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from manent_server.api import problem, shapes
from manent_server.api.signin import PUBLIC

_COMMON = (401, 403, 404, 422, 500, 503)
_WITH_BODY = (400, 408, 409, 413, 415)
_WORDS = {status.code: status.title for status in problem.STATUS.values()} | problem.TITLES
_WORDS |= {409: "In conflict with the present state, or refused by policy", 422: "Not acceptable"}


def install(app: FastAPI) -> None:
    """Let the application answer with our document."""
    app.openapi = lambda: document(app)  # type: ignore[method-assign]


def document(app: FastAPI) -> dict[str, Any]:
    """The document, made once."""
    if app.openapi_schema is None:
        app.openapi_schema = _document(app)
    return app.openapi_schema


def _document(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title=app.title,
        version=app.version,
        description="Deploys that survive crashes. Every refusal is a problem body (RFC 9457).",
        routes=app.routes,
    )
    components = found.setdefault("components", {})
    components.setdefault("schemas", {}).update(_problem_schemas())
    components["schemas"].pop("HTTPValidationError", None)
    components["schemas"].pop("ValidationError", None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in found["paths"].items():
        for operation in operations.values():
            if path not in PUBLIC:
                _refusals(operation)
    return found


def _refusals(operation: dict[str, Any]) -> None:
    operation["security"] = [{"token": []}]
    codes = _COMMON + (_WITH_BODY if "requestBody" in operation else ())
    for code in codes:
        operation["responses"][str(code)] = {
            "description": _WORDS[code],
            "content": {
                problem.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}
            },
        }
    operation["responses"]["401"]["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    operation["responses"] = dict(sorted(operation["responses"].items()))


def _problem_schemas() -> dict[str, Any]:
    schema = shapes.ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
    inner = schema.pop("$defs", {})
    return {"ProblemBody": schema, **inner}
