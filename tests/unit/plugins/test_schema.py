import pytest

from manent_server.plugins import schema

SCHEMA = {
    "type": "object",
    "required": ["root"],
    "additionalProperties": False,
    "properties": {
        "root": {"type": "string", "pattern": "^/", "minLength": 2, "maxLength": 9},
        "keep": {"type": ["integer", "null"], "minimum": 1, "maximum": 5},
        "mode": {"enum": ["fast", "safe"]},
        "on": {"type": "boolean"},
        "hosts": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
        "more": {"additionalProperties": {"type": "number"}},
        "fixed": {"const": 1},
        "loose": True,
    },
}


def found(value: object) -> list[tuple[str, str]]:
    return list(schema.check(SCHEMA, value))


def test_what_is_allowed_has_no_finding() -> None:
    assert found({"root": "/srv"}) == []
    everything = {
        "root": "/srv", "keep": None, "mode": "fast", "on": True, "hosts": ["a"],
        "more": {"x": 1.5, "y": 2}, "fixed": 1, "loose": object,
    }  # fmt: skip
    assert found(everything) == []


def test_no_schema_allows_anything() -> None:
    assert list(schema.check(None, {"a": 1})) == []


@pytest.mark.parametrize(
    ("value", "finding"),
    [
        ([], ("", "must be object")),
        ({}, ("root", "is required")),
        ({"root": 1}, ("root", "must be string")),
        ({"root": "srv"}, ("root", "must have pattern '^/'")),
        ({"root": "/"}, ("root", "must have minLength 2")),
        ({"root": "/srv/long/"}, ("root", "must have maxLength 9")),
        ({"keep": "3"}, ("keep", "must be integer or null")),
        ({"keep": True}, ("keep", "must be integer or null")),
        ({"keep": 0}, ("keep", "must have minimum 1")),
        ({"keep": 6}, ("keep", "must have maximum 5")),
        ({"mode": "slow"}, ("mode", "must have enum ['fast', 'safe']")),
        ({"on": 1}, ("on", "must be boolean")),
        ({"hosts": []}, ("hosts", "must have minItems 1")),
        ({"hosts": ["a", "b", "c"]}, ("hosts", "must have maxItems 2")),
        ({"hosts": ["a", 1]}, ("hosts.1", "must be string")),
        ({"more": {"x": "1"}}, ("more.x", "must be number")),
        ({"fixed": 2}, ("fixed", "must have const 1")),
        ({"kep": 1}, ("kep", "unknown key; nearest is keep")),
        ({"zzzzzz": 1}, ("zzzzzz", "unknown key")),
    ],
)
def test_what_is_not_allowed_is_found_with_its_path(value: object, finding: object) -> None:
    given = {"root": "/srv", **value} if isinstance(value, dict) and value else value
    assert finding in found(given)
