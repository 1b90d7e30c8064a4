"""Requests of an operation as schemathesis draws them, sent to a server as each role.

Whoever imports this loads schemathesis, which takes seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
)

from tests.rig.serve import Rig

# Refusals that list a field and yet are out of a schema's reach.
BEYOND = {"instant_past", "cron_invalid", "timezone_invalid", "schedule_invalid", "reason_missing"}
patient = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


@dataclass(frozen=True)
class Server:
    """A server without a worker: what is asked for is accepted and waits."""

    rig: Rig
    viewer: str
    session: requests.Session

    def check(self, case: schemathesis.Case) -> None:
        """Send the case as each role and run every check schemathesis has."""
        self._check(case, self.rig.token, ())
        # That a request without a token is refused does not depend on who may not send it.
        self._check(case, self.viewer, (ignored_auth,))

    def fuzz(
        self,
        document: dict[str, Any],
        operation: str,
        *,
        phases: Sequence[str],
        examples: int,
        is_steady: bool = False,
    ) -> None:
        """Send an operation all cases of it, the same ones each time if it is to be steady.

        They are made here: schemathesis' own `parametrize` makes them while tests are collected,
        in every process and for every run of whichever tests. This is what its tests by fixture
        call.
        """
        method, path = operation.split()
        schema = schemathesis.openapi.from_dict(document).include(method=method, path=path)
        # Again: of the settings a number that is Hypothesis' own default is passed over.
        schema.config.generation.update(max_examples=examples)
        schema.config.phases.update(phases=list(phases))
        load_all_checks()
        drawn = settings(patient, max_examples=examples, derandomize=is_steady)
        (made,) = get_all_tests(schema=schema, test_func=check, settings=drawn, given_kwargs={})
        _, test = made.ok()
        test(server=self)

    def _check(self, case: schemathesis.Case, token: str, without: Sequence[Any]) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        response = case.call(base_url=self.rig.url, headers=headers, session=self.session)
        unfit: list[Any] = [positive_data_acceptance] if is_beyond_the_schema(response) else []
        if is_of_the_door(response):
            unfit = [positive_data_acceptance, negative_data_rejection]
        case.validate_response(response, excluded_checks=[*unfit, *without], headers=headers)


def is_beyond_the_schema(response: schemathesis.Response) -> bool:
    """Whether a use case refused what no schema can rule out.

    A cursor nobody gave out, a key used before: the refusal lists no field. An instant that has
    passed, a cron expression that never comes to one, an override without a reason. Names are
    within the schema's reach.
    """
    if response.status_code != 422:
        return False
    body = response.json()
    if body["code"] in BEYOND:
        return True
    return "errors" not in body and body["code"] != "name_invalid"


def is_of_the_door(response: schemathesis.Response) -> bool:
    """Whether it was refused for its size, before anything was parsed."""
    return response.status_code in (413, 431)


def check(case: schemathesis.Case, server: Server) -> None:
    server.check(case)
