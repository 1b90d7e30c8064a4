"""What one field asks for may need a right that its route does not."""

from typing import Any

import pytest

from manent_server.domain.access import Grant, everywhere
from tests.integration.access.conftest import Door

DEPLOY = {"application": "shop", "environment": "staging", "version": "1", "reason": "why"}
BACK = {"application": "shop", "environment": "staging", "reason": "why"}
ELSEWHERE = Grant("admin", ("shop",), ("production",))


@pytest.mark.parametrize(
    ("role", "path", "body", "right"),
    [
        *(
            ("deployer", "deploys", DEPLOY | {"override": [gate]}, "override")
            for gate in ("lock", "freeze", "hold", "window", "promotion", "soak")
        ),
        ("deployer", "deploys", DEPLOY | {"override": ["outdated", "lock"]}, "override"),
        ("deployer", "deploys", DEPLOY | {"override": ["approval"]}, "bypass"),
        ("operator", "deploys", DEPLOY | {"override": ["lock", "approval"]}, "bypass"),
        ("deployer", "deploys", DEPLOY | {"priority": 1}, "prioritise"),
        ("deployer", "rollbacks", BACK | {"veto": True}, "lock"),
    ],
)
def test_a_field_needs_its_right_where_it_acts(
    door: Door, role: str, path: str, body: dict[str, Any], right: str
):
    """Not only somewhere: who has it in production has it not in staging."""
    status, text = door.ask((*everywhere(role), ELSEWHERE), "POST", f"/api/v1/{path}", body)
    assert (status, f"may not {right} shop in staging" in text) == (403, True), text


def test_whoever_may_pass_a_gate_passes_it(door: Door):
    body = DEPLOY | {"override": ["lock"], "priority": 1}
    assert door.ask(everywhere("operator"), "POST", "/api/v1/deploys", body)[0] == 202
    assert door.ask(everywhere("admin"), "POST", "/api/v1/deploys", DEPLOY)[0] == 202
