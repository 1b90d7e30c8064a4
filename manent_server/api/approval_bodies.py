"""What requests about approvals may say."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from manent_server.api.bodies import Body, Parameters
from manent_server.api.fields import Limit, Name, Reason, Text

StateName = Literal["waiting", "approved", "rejected", "expired", "void", "ended"]


class DecisionBody(Body):
    """What one says to an approval."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"decision": {"const": "approve"}}},
                {"required": ["comment"], "properties": {"comment": {"type": "string"}}},
            ]
        }
    )

    decision: Literal["approve", "reject"]
    comment: Reason | None = Field(default=None, description="A rejection needs one.")


class RegateBody(Body):
    """Let a deploy that waits take the rules of today."""

    reason: Reason


class ApprovalQuery(Parameters):
    """Which approvals to list."""

    application: Name | None = None
    environment: Name | None = None
    deploy: Text | None = Field(
        default=None, description="Of this deploy: by id, its beginning, or its number."
    )
    state: StateName | None = None
    before: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        default=None, description="`next` of the page before."
    )
    limit: Limit = 50
