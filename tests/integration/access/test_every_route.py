"""Every route, as every role, in its own place, in another and nowhere: 2xx, 403 or 404."""

from collections.abc import Iterator

import pytest

from manent_server.api import signin
from manent_server.api.app import ROUTERS
from manent_server.api.route import PREFIX, RIGHT
from manent_server.domain import access
from manent_server.domain.access import Grant, everywhere
from manent_server.domain.marks import Sort
from tests.integration.access.conftest import Door
from tests.integration.access.routes import ROUTES, Asks, Of, Place, furnish
from tests.rig.core import Core

_MISSING = {403, 404}
_OPEN = (Of.ONESELF, Of.NOBODY)


@pytest.fixture(scope="module")
def places(core: Core) -> tuple[Place, Place]:
    """One's own and another: they have neither application nor environment in common."""
    return furnish(core, "shop", "staging"), furnish(core, "mail", "production")


def routes() -> Iterator[tuple[tuple[str, str], str | None]]:
    """Method and path of every route, with the right it declares."""
    for router in ROUTERS:
        for route in router.routes:
            for method in route.methods:  # type: ignore[attr-defined]
                path = route.path.removeprefix(PREFIX)  # type: ignore[attr-defined]
                yield (method, path), (route.openapi_extra or {}).get(RIGHT)  # type: ignore[attr-defined]


def test_every_route_is_declared_with_its_right():
    assert dict(routes()) == {name: asks.right for name, asks in ROUTES.items()}


def own(role: str) -> tuple[Grant, ...]:
    return (Grant(role, ("shop",), ("staging", "manual")),)


@pytest.mark.parametrize("role", access.ROLES)
def test_in_its_own_place_a_role_may_what_it_may(
    core: Core, door: Door, places: tuple[Place, Place], role: str
):
    wrong = []
    mine, other = furnish(core, "shop", "staging"), places[1]
    for (method, _), asks in ROUTES.items():
        status, text = ask(door, own(role), method, asks, mine)
        may = asks.of in _OPEN or (asks.right in access.ROLES[role] and asks.of is not Of.ALL)
        if asks.of in _OPEN:
            is_wrong = status == 403
        else:
            is_wrong = may is (status in _MISSING) or (not may and status != 403)
        if is_wrong:
            wrong.append((method, asks.path(mine), status, text))
        elif may and (seen := {word for word in other.words if word in text}):
            wrong.append((method, asks.path(mine), "shows", seen))
    assert wrong == []


@pytest.mark.parametrize("role", access.ROLES)
def test_what_a_role_does_not_see_is_not_there(door: Door, places: tuple[Place, Place], role: str):
    wrong = []
    for (method, _), asks in ROUTES.items():
        if asks.of is not Of.PLACE:
            continue
        status, text = ask(door, own(role), method, asks, places[1])
        if status != (404 if asks.right in access.ROLES[role] else 403):
            wrong.append((method, asks.path(places[1]), status, text))
    assert wrong == []


@pytest.mark.parametrize("role", access.ROLES)
def test_what_it_sees_and_may_not_touch_is_refused_with_a_way_out(
    door: Door, places: tuple[Place, Place], role: str
):
    wrong = []
    for (method, _), asks in ROUTES.items():
        if asks.of in (Of.LIST, Of.NOTHING, *_OPEN) or asks.right == access.READ:
            continue
        grants = (*own(role), *everywhere("viewer"))
        status, text = ask(door, grants, method, asks, places[1])
        if status != 403 or '"next":"ask an administrator' not in text:
            wrong.append((method, asks.path(places[1]), status, text))
    assert wrong == []


@pytest.mark.parametrize(
    "grants", [(), (Grant("admin"), Grant("viewer", deny=True))], ids=["none", "denied"]
)
def test_whoever_was_granted_nothing_gets_nothing(
    door: Door, places: tuple[Place, Place], grants: tuple[Grant, ...]
):
    for (method, _), asks in ROUTES.items():
        status, text = ask(door, grants, method, asks, places[0])
        assert asks.of in _OPEN or status == 403, (method, asks.path(places[0]), text)


def test_what_is_not_seen_answers_word_for_word_like_what_is_not_there(
    door: Door, places: tuple[Place, Place]
):
    other = places[1]
    absent = Place(
        "none",
        "nowhere",
        "0" * len(other.deploy),
        "no-schedule",
        "0" * len(other.approval),
        {sort: "0" * len(mark) for sort, mark in other.marks.items()},
    )
    for (method, _), asks in ROUTES.items():
        if asks.of is Of.PLACE:
            hidden = ask(door, own("admin"), method, asks, other)
            missing = ask(door, own("admin"), method, asks, absent)
            assert plain(hidden, other) == plain(missing, absent)


def test_only_what_is_declared_public_answers_without_a_token(door: Door):
    public = {f"{PREFIX}{path}" for (_, path), asks in ROUTES.items() if asks.of is Of.NOBODY}
    assert public == {path for path in signin.PUBLIC if path.startswith(PREFIX)}
    for (method, _), asks in ROUTES.items():
        if asks.of is not Of.NOBODY:
            path = asks.path(Place("a", "e", "d", "s", "p", dict.fromkeys(Sort, "m")))
            assert door.client.request(method, f"{PREFIX}{path}").status_code == 401


def plain(answer: tuple[int, str], place: Place) -> tuple[int, str]:
    """An answer without the words it was asked with, and without its number."""
    text = answer[1].partition('"request_id"')[0]
    words = [place.schedule, place.deploy, place.approval, place.application, place.environment]
    for word in (*words, *place.marks.values()):
        text = text.replace(word, "WORD")
    return answer[0], text


def ask(
    door: Door, grants: tuple[Grant, ...], method: str, asks: Asks, place: Place
) -> tuple[int, str]:
    return door.ask(grants, method, f"{PREFIX}{asks.path(place)}", asks.body(place))
