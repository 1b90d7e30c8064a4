"""Variables nobody reads are told, not swallowed."""

import pytest

from manent_cli.environment import VARIABLES, warnings


def test_a_misspelt_variable_is_named_with_the_right_one():
    """B116: misspelt settings silently ran on defaults."""
    assert list(warnings({"MANENT_TOKN": "x"})) == [
        "MANENT_TOKN is set, but nothing reads it: MANENT_TOKEN?"
    ]
    assert list(warnings({"MANENT_QQQQQQ": "x"})) == ["MANENT_QQQQQQ is set, but nothing reads it"]


def test_the_value_is_not_repeated():
    assert "secret" not in " ".join(warnings({"MANENT_TOKN": "secret"}))


@pytest.mark.parametrize(
    "name",
    [*VARIABLES, "MANENT_CONFIG", "MANENT_DEPLOY_ID", "MANENT_PROTOCOL_IN", "PATH", "MANENT",
     "MANENT_SERVICE_HOST", "MANENT_SERVICE_PORT_HTTP", "MANENT_PORT", "MANENT_PORT_8420_TCP_ADDR",
     "MANENT_METRICS_SERVICE_HOST", "MANENT_CHECKPOINT_FD"],
)  # fmt: skip
def test_known_and_foreign_variables_are_silent(name):
    assert not list(warnings({name: "x"}))
