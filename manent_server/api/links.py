"""Routes of links: which accounts of chats are whose."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from manent_server.api.bodies import Body
from manent_server.api.fields import Account, Text
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked, Key
from manent_server.api.shapes import Shape
from manent_server.domain.access import READ

router = APIRouter(prefix=PREFIX, route_class=Route, tags=["links"])


class LinkBody(Body):
    """What `POST /links` takes."""

    code: Annotated[Text, Field(max_length=40)] = Field(
        description="As the chat gave it to you alone."
    )
    preview: bool = Field(default=False, description="Say only whose account it would link.")


class UnlinkBody(Body):
    """What `POST /links/remove` takes."""

    chat: Text
    account: Account


class Link(Shape):
    """An account of a chat, and the person whose decisions it gives; null: nobody's."""

    chat: str
    account: str
    login: str | None = None


class Links(Shape):
    """The accounts of the person who asks."""

    items: list[Link]
    next: str | None = None


@router.get("/links", response_model=Links, openapi_extra=needs(READ))
def links(asked: Asked) -> Any:
    """The accounts of chats that are yours."""
    return asked.calls.links(asked.desk, caller=asked.caller)


@router.post("/links", response_model=Link, openapi_extra=needs(READ))
def link(body: LinkBody, asked: Asked, key: Key) -> Any:
    """Make an account yours, by the code its chat gave you; a code works once."""
    if body.preview:
        return asked.calls.look_link(asked.desk, body.code, caller=asked.caller)
    return asked.calls.link(asked.desk, body.code, caller=asked.caller, key=key)


@router.post("/links/remove", response_model=Link, openapi_extra=needs(READ))
def unlink(body: UnlinkBody, asked: Asked, key: Key) -> Any:
    """Make an account nobody's again: yours, or with the right grant anyone's."""
    return asked.calls.unlink(asked.desk, body.chat, body.account, caller=asked.caller, key=key)
