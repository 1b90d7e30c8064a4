"""The OpenAPI document and the pages made from it."""

import json
import re
from pathlib import Path

import pytest
from fastapi import FastAPI

from manent_server.api import problem, reference
from manent_server.api.route import RIGHT, SIGNED_IN
from manent_server.api.signin import PUBLIC, SIGNED
from tests.integration.api.conftest import FakeUsecases, make_app

DOCS = Path(__file__).parents[3] / "docs" / "reference"


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return make_app(FakeUsecases())


@pytest.fixture(scope="module")
def page() -> str:
    return reference.render()


@pytest.fixture(scope="module")
def operations(app: FastAPI) -> dict[str, dict[str, object]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in app.openapi()["paths"].items()
        for method, operation in methods.items()
    }


def test_the_document_is_openapi_3_1(app: FastAPI) -> None:
    assert app.openapi()["openapi"].startswith("3.1")
    assert app.openapi() is app.openapi()


def test_no_object_is_named_after_a_module(app: FastAPI) -> None:
    """As it is where two of them have one name: a client made of the document would show it."""
    assert [name for name in app.openapi()["components"]["schemas"] if "__" in name] == []


def test_every_route_is_in_the_document(app: FastAPI, operations: dict[str, object]) -> None:
    served = {
        f"{method} {route.path_format}"
        for route in app.routes
        for method in route.methods or ()
        # Neither is the document itself, nor the door at which chats come in their own protocols.
        if not route.path.endswith("openapi.json") and not route.path.startswith(SIGNED)
    }

    assert set(operations) == served


READING = {"read", "audit", "grant", SIGNED_IN}
"""What a route that only looks may ask for."""


def test_every_operation_names_its_right_its_way_in_and_its_refusals(
    operations: dict[str, dict[str, object]],
) -> None:
    for title, operation in operations.items():
        if title.split()[1] in PUBLIC:
            assert "security" not in operation
            continue
        assert operation[RIGHT] in READING or not title.startswith("GET")
        assert operation["security"] == [{"token": []}]
        responses = operation["responses"]
        assert isinstance(responses, dict)
        assert {"401", "403", "422", "500", "503"} <= set(responses)
        refusals = {code: answer for code, answer in responses.items() if code >= "400"}
        for answer in refusals.values():
            assert set(answer["content"]) == {problem.MEDIA_TYPE}
        assert "HTTPValidationError" not in str(operation)


def test_the_pages_name_every_route_and_every_code(
    page: str, operations: dict[str, object]
) -> None:
    errors = reference.render_errors()

    assert all(f"### {title}\n" in page for title in operations)
    codes = {kind.code for kind in problem.STATUS} - {"error"} | set(problem.CODES.values())
    assert all(f"`{code}`" in errors for code in codes)


def test_no_link_of_the_page_leads_nowhere(page: str) -> None:
    anchors = {title.lower() for title in re.findall(r"^### (\w+)$", page, re.MULTILINE)}

    assert set(re.findall(r"\(#(\w+)\)", page)) <= anchors


def test_what_is_stored_is_not_stale(app: FastAPI) -> None:
    advice = "stale: run python -m manent_server.api.reference docs/reference"

    assert json.loads((DOCS / "openapi.json").read_text()) == app.openapi(), advice
    assert reference.render_errors().strip() in (DOCS / "errors.md").read_text(), advice
