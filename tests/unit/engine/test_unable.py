"""When a deploy is left to another worker, and when that would help nobody."""

from typing import Any

from manent_server.engine import unable
from manent_server.plugins.runner import HookEnd

NOBODY: Any = None


def test_a_hook_that_was_only_expected_to_be_refused_is_no_reason_to_leave():
    """This worker can begin it: it goes on at once."""
    goes_on = HookEnd(result="not_started", error={"code": unable.ALLOWED, "message": "goes on"})
    unable.leave(NOBODY, goes_on, unable.TRIES)
