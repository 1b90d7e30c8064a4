"""`MANENT_` variables: known or refused."""

import pytest

from manent_server.settings import check_environment
from manent_server.settings.environment import KNOWN

KUBERNETES = {
    "MANENT_SERVICE_HOST": "10.0.0.1",
    "MANENT_SERVICE_PORT": "8420",
    "MANENT_SERVICE_PORT_HTTP": "8420",
    "MANENT_SERVICE_PORT_HTTP_METRICS": "8421",
    "MANENT_PORT": "tcp://10.0.0.1:8420",
    "MANENT_PORT_8420_TCP": "tcp://10.0.0.1:8420",
    "MANENT_PORT_8420_TCP_PROTO": "tcp",
    "MANENT_PORT_8420_TCP_PORT": "8420",
    "MANENT_PORT_8420_TCP_ADDR": "10.0.0.1",
    "MANENT_PORT_53_UDP_ADDR": "10.0.0.1",
}


def test_known_variables_pass() -> None:
    """B116: the documented ones, and what is not ours."""
    environ = dict.fromkeys(KNOWN, "x") | {"PATH": "/bin", "MANENTX": "1", "XMANENT_A": "1"}
    assert check_environment(environ) == []


def test_what_kubernetes_injects_passes() -> None:
    """B116: a Service called manent must not stop the start."""
    assert check_environment(KUBERNETES) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("MANENT_CONFG", "did you mean MANENT_CONFIG?"),
        ("MANENT_TOKENS", "did you mean MANENT_TOKEN?"),
        ("manent_config", "did you mean MANENT_CONFIG?"),
        ("MANENT_DATABASE_URL", "settings belong in manent.yml"),
        ("MANENT_WORKER_SERVICE_HOST", "settings belong in manent.yml"),
        ("MANENT_PORT_X_TCP", "settings belong in manent.yml"),
        ("MANENT_", "settings belong in manent.yml"),
    ],
)
def test_any_other_is_refused(name: str, hint: str) -> None:
    """B116: a misspelt variable never runs silently on defaults."""
    [found] = check_environment({name: "hunter2", **KUBERNETES})
    assert found == {
        "file": "environment",
        "line": 0,
        "path": name,
        "layer": "environment",
        "message": f"unknown variable {name}; {hint}",
    }
