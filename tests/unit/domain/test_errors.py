"""Errors carry a code, a next move and what else the problem body needs."""

import pytest

from manent_server.domain import errors
from manent_server.domain.errors import ManentError, NotFound


def tree(root: type[ManentError] = ManentError) -> list[type[ManentError]]:
    own = [kind for kind in root.__subclasses__() if kind.__module__ == errors.__name__]
    return [root, *(found for kind in own for found in tree(kind))]


def test_an_error_says_what_and_what_next():
    error = NotFound(
        "there is no deploy x", next="look", errors=[{"path": "a"}], facts={"gates": []}
    )
    assert (str(error), error.detail, error.code) == (
        "there is no deploy x",
        "there is no deploy x",
        "not_found",
    )
    assert (error.next, error.errors, error.facts) == ("look", ({"path": "a"},), {"gates": []})


def test_one_error_may_have_a_code_of_its_own():
    assert NotFound("x", code="artifact_gone").code == "artifact_gone"
    assert NotFound("x").code == "not_found"


@pytest.mark.parametrize("kind", tree())
def test_every_class_has_a_code_of_its_own(kind: type[ManentError]):
    assert [other for other in tree() if other.code == kind.code] == [kind]
