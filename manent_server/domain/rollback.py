"""What a rollback goes back to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Good:
    """A deploy that succeeded: which one it replaced, and whether it was itself a going back.

    `replaces` is the deploy that was good before it; `rollback_to` the one a rollback
    brought back.
    """

    id: str
    version: str
    replaces: str | None
    rollback_to: str | None


def target(
    live: Good,
    *,
    is_intact: bool,
    find: Callable[[str], Good | None],
    is_banned: Callable[[str], bool] = lambda _: False,
) -> Good | None:
    """The good deploy to go back to.

    The chain of what was good before is followed, not the calendar: a version that was rolled
    back from stands on no chain, so it is never a target; nor does a second rollback go
    forward again.

    Args:
        live: The last deploy that succeeded here.
        is_intact: Every target is known to run what `live` brought; if not (a later deploy
            failed half-way), `live` itself is what to go back to.
        find: Reads one good deploy by id; None where retention removed it.
        is_banned: Whether a version is vetoed there: it is passed over.
    """
    if not is_intact and not is_banned(live.version):
        return live
    seen = {live.id}
    place = _origin(live, find)
    while place is not None and place.replaces is not None and place.replaces not in seen:
        seen.add(place.replaces)
        before = find(place.replaces)
        if before is None:
            return None
        if before.version != live.version and not is_banned(before.version):
            return _origin(before, find) or before
        place = _origin(before, find)
    return None


def _origin(good: Good, find: Callable[[str], Good | None]) -> Good | None:
    """The deploy that first brought what a rollback brought back."""
    seen = {good.id}
    while good.rollback_to is not None and good.rollback_to not in seen:
        seen.add(good.rollback_to)
        older = find(good.rollback_to)
        if older is None:
            return None
        good = older
    return good


@dataclass(frozen=True)
class TargetPast:
    """What ran on one target before: nothing known means there is nothing to go back to."""

    deploy: str
    version: str
    sha256: str | None


def reachable(touched: tuple[str, ...], past: Mapping[str, TargetPast]) -> tuple[str, ...]:
    """The touched targets that have something to go back to."""
    return tuple(name for name in touched if name in past)
