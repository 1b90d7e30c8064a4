from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from manent_plugins import release
from manent_plugins.release.schema import ReleaseOptions
from manent_server.sdk.options import template_paths
from tests.plugins.places import Place, a_place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with a_place(tmp_path) as place:
        yield place


@pytest.mark.parametrize(
    ("wrong", "path", "words"),
    [
        ({}, ("root",), "required"),
        ({"root": "srv/shop"}, ("root",), "absolute path"),
        ({"root": "/srv/../etc"}, ("root",), "absolute path"),
        ({"root": "/"}, ("root",), "below /"),
        ({"health": "ftp://host/"}, ("health",), "http:// or https://"),
        ({"health": "http:///x"}, ("health",), "http:// or https://"),
        ({"health": "http://u:p@host/"}, ("health",), "no user"),
        ({"health": "http://host:port/"}, ("health",), "ort"),
        ({"health": "http://host/a b"}, ("health",), "without blanks"),
        ({"keep": 0}, ("keep",), "greater than or equal to 1"),
        ({"keep": True}, ("keep",), "valid integer"),
        ({"keep": "5"}, ("keep",), "valid integer"),
        ({"health_timeout": 30}, ("health_timeout",), "not a duration"),
        ({"health_timeout": "0s"}, ("health_timeout",), "greater than"),
        ({"restart": "systemctl restart shop"}, ("restart",), "write a list"),
        ({"restart": ["a"], "service": ["b"]}, (), "exclude each other"),
        ({"environment": {"PORT": 8080}}, ("environment", "PORT"), "quote it"),
        ({"environment": {"A=B": "x"}}, ("environment",), "not the name"),
        ({"service": ["a", "secret://env/X"]}, ("service", 1), "under environment"),
        ({"kep": 3}, ("kep",), "Extra inputs"),
    ],
)
def test_options_that_would_not_work_are_refused_at_load(
    wrong: dict[str, Any], path: tuple[str | int, ...], words: str
) -> None:
    given = {"root": "/srv/{application}", **wrong} if wrong else {}
    with pytest.raises(ValidationError) as raised:
        ReleaseOptions.model_validate(given)
    found = raised.value.errors()[0]
    assert found["loc"] == path
    assert words in found["msg"]


def test_the_options_of_the_example_configuration_are_accepted() -> None:
    found = ReleaseOptions.model_validate(
        {
            "root": "/srv/{application}",
            "health": "http://{target}:9001/{application}/healthz",
            "restart": ["systemctl", "restart", "billing"],
            "keep": 3,
        }
    )
    assert (found.keep, found.health_timeout) == (3, timedelta(seconds=30))
    assert template_paths(ReleaseOptions) == {"root", "service", "restart", "environment", "health"}
    assert release.options() is ReleaseOptions
