"""`waves`: which targets come first, then which."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from manent_server.settings.findings import suggestion
from manent_server.settings.kinds import Name, Whole
from manent_server.settings.node import Listing, Node, Scalar
from manent_server.settings.reading import INVALID, Invalid, Reading

_PERCENT = re.compile(r"([1-9][0-9]?|100)%")


@dataclass(frozen=True)
class Named:
    """The targets named."""

    targets: tuple[str, ...]


@dataclass(frozen=True)
class Count:
    """So many of the targets left."""

    count: int


@dataclass(frozen=True)
class Percent:
    """A share of all targets, rounded up."""

    percent: int


@dataclass(frozen=True)
class Rest:
    """All targets left."""


Wave = Named | Count | Percent | Rest


class WaveError(ValueError):
    """The waves do not cover the targets once each; `index` is the wave at fault, if one is."""

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


@dataclass(frozen=True)
class Waves:
    """The list as written."""

    words: str = "list of target names, counts, percentages or `rest`"

    def read(self, node: Node, reading: Reading) -> tuple[Wave, ...] | Invalid | None:
        """The waves, or None for the default of a single one."""
        if isinstance(node, Scalar) and node.kind == "null":
            return None
        if not isinstance(node, Listing):
            return reading.refuse(node, "must be a list such as [1, 25%, rest]")
        found = [_wave(item, reading) for item in node.items]
        waves = tuple(wave for wave in found if wave is not INVALID)
        return waves if len(waves) == len(found) else INVALID


def _wave(node: Node, reading: Reading) -> Wave | Invalid:
    if isinstance(node, Listing):
        names = [_target(item, reading) for item in node.items]
        given = tuple(name for name in names if name is not INVALID)
        return Named(given) if len(given) == len(names) else INVALID
    if isinstance(node, Scalar) and node.kind == "int":
        count = Whole().read(node, reading)
        return INVALID if count is INVALID else Count(count)
    text = reading.text(node)
    return INVALID if text is INVALID else _worded(text, node, reading)


def percent(text: str) -> int | None:
    """The number of a whole percentage from 1% to 100%; None if it is none."""
    found = _PERCENT.fullmatch(text)
    return int(found[1]) if found else None


def _worded(text: str, node: Node, reading: Reading) -> Wave | Invalid:
    if text == "rest":
        return Rest()
    if text.endswith("%"):
        share = percent(text)
        wrong = "must be a whole percentage from 1% to 100%"
        return Percent(share) if share is not None else reading.refuse(node, wrong)
    name = _target(node, reading)
    return INVALID if name is INVALID else Named((name,))


def _target(node: Node, reading: Reading) -> str | Invalid:
    return Name("target").read(node, reading)


def resolve(waves: Sequence[Wave] | None, targets: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The targets of each wave; waves for which a share or `rest` leaves none are dropped.

    Counts, shares and `rest` take targets in the order written, never one that is named.

    Raises:
        WaveError: A target in no wave or in two, an unknown one, a count that is not there.
    """
    if waves is None:
        return (tuple(targets),)
    left = _unnamed(waves, targets)
    resolved: list[tuple[str, ...]] = []
    has_rest = False
    for index, wave in enumerate(waves):
        if isinstance(wave, Named):
            resolved.append(wave.targets)
            continue
        if has_rest:
            raise WaveError("nothing is left after rest", index)
        has_rest = isinstance(wave, Rest)
        count = _size(wave, index, left=len(left), total=len(targets))
        resolved.append(tuple(left[:count]))
        del left[:count]
    if left:
        raise WaveError(f"no wave has {', '.join(left[:10])}: add rest")
    return tuple(wave for wave in resolved if wave)


def _size(wave: Wave, index: int, *, left: int, total: int) -> int:
    if isinstance(wave, Count):
        if wave.count > left:
            raise WaveError(f"asks for {wave.count} targets, and {left} are left", index)
        return wave.count
    if isinstance(wave, Percent):
        return min(left, -(-total * wave.percent // 100))
    return left


def _unnamed(waves: Sequence[Wave], targets: Sequence[str]) -> list[str]:
    known, seen = set(targets), set[str]()
    for index, wave in enumerate(waves):
        for name in wave.targets if isinstance(wave, Named) else ():
            if name not in known:
                hint = suggestion(name, targets)
                raise WaveError(f"there is no target {name!a} here; {hint}", index)
            if name in seen:
                raise WaveError(f"target {name} is in two waves", index)
            seen.add(name)
    return [target for target in targets if target not in seen]
