"""What answers about approvals say."""

from typing import Any

from pydantic import Field

from manent_server.api.shapes import Shape, When


class Vote(Shape):
    """What one person said."""

    by: str
    decision: str
    comment: str | None = None
    channel: str | None = None
    at: When


class Approval(Shape):
    """One rule of one deploy: what is asked, what was said, what is lacking.

    `state` is waiting, approved, rejected, expired, void (what was asked has changed since) or
    ended (the deploy ended first). `may_decide` is about whoever asks.
    """

    id: str
    deploy: str
    number: int
    application: str
    environment: str
    kind: str
    version: str
    from_version: str | None = None
    requested_by: str
    reason: str | None = None
    not_before: When | None = None
    links: dict[str, str] | None = None
    changes: list[dict[str, Any]] | None = None
    rule: str
    quorum: int
    from_: list[str] = Field(default_factory=list, alias="from")
    required: list[str] = Field(default_factory=list)
    chat: list[str] = Field(default_factory=list)
    state: str
    digest: str
    asked_at: When
    expires_at: When | None = None
    closed_at: When | None = None
    approvers: list[str] = Field(default_factory=list)
    missing: list[str] = Field(default_factory=list)
    votes: list[Vote] = Field(default_factory=list)
    may_decide: bool
    why_not: str | None = None
    url: str
    command: str


class Decided(Approval):
    """An approval after a decision; `message`: `recorded`, or `already recorded`."""

    message: str


class Approvals(Shape):
    """A page of approvals, the newest first."""

    items: list[Approval]
    next: str | None = None
