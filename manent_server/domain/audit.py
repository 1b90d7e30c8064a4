"""The record of who did what: its text, its chain, and what can be wrong with it."""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

GENESIS: Final = "0" * 64
"""What the first record is chained to."""
CHECKPOINT: Final = "audit.checkpoint"
"""The action of a record that signs the chain so far."""
_HEAD: Final = ("id", "at", "actor", "action", "deploy", "application", "environment")
_OF_COLUMNS: Final = (',"deploy":', ',"application":', ',"environment":')
_REST: Final = ("channel", "address", "detail", "before", "after")


@dataclass(frozen=True, slots=True)
class Head:
    """What of a record stands in columns too, so that it can be found."""

    id: str
    at: datetime
    actor: str
    action: str
    deploy: str | None
    application: str | None
    environment: str | None

    def text(self) -> str:
        """The beginning of the record's text, up to what stands in it alone."""
        at = instant(self.at)
        return beginning(
            (self.id, at, self.actor, self.action, self.deploy, self.application, self.environment)
        )


NO_BEGINNING: Final = "\0"
"""With this no text begins."""


def beginning(columns: Sequence[Any]) -> str:
    """The beginning of a record's text, of what stands in columns too; of the instant as written.

    `NO_BEGINNING` for values of a kind that only force can have put there.
    """
    name, at, actor, action, deploy, application, environment = columns
    quoted = encode_basestring
    try:
        found = f'{{"id":{quoted(name)},"at":"{at}","actor":{quoted(actor)}'
        found = f'{found},"action":{quoted(action)}'
        if deploy is not None:
            found = f'{found},"deploy":{quoted(deploy)}'
        if application is not None:
            found = f'{found},"application":{quoted(application)}'
        if environment is not None:
            found = f'{found},"environment":{quoted(environment)}'
    except TypeError:
        return NO_BEGINNING
    return found


def begins(text: str, head: str) -> bool:
    """Whether a text says no more and no less of the columns than its beginning does."""
    # A column that was emptied would leave its member behind.
    return text.startswith(head) and not text.startswith(_OF_COLUMNS, len(head))


def text(head: Head, rest: Mapping[str, Any]) -> str:
    """The text of a record: members in one order, what they hold sorted; no member is null.

    Args:
        head: What stands in columns too.
        rest: `channel`, `address`, `detail`, `before`, `after`, as far as there are.
    """
    members = [f'"{name}":{_dumped(rest[name])}' for name in _REST if rest.get(name) is not None]
    return ",".join([head.text(), *members]) + "}"


def _dumped(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def parse(text: str) -> dict[str, Any]:
    """The members of a record's text; those it has not are None."""
    found: dict[str, Any] = dict.fromkeys((*_HEAD, *_REST))
    return {**found, **json.loads(text)}


def instant(at: datetime) -> str:
    """An instant as records write it."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def link(previous: str, number: int, text: str) -> str:
    """The hash of a record: of the hash before it, of its number and of its text, a line each."""
    return hashlib.sha256(f"{previous}\n{number}\n{text}".encode()).hexdigest()


@dataclass(frozen=True)
class Wanted:
    """Which records to list; `action` may end in `*`."""

    actor: str | None = None
    action: str | None = None
    deploy: str | None = None
    application: str | None = None
    environment: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: str | None = None
    limit: int = 50


@dataclass(frozen=True)
class Break:
    """The first place where the record is not what was chained."""

    kind: str
    number: int | None
    detail: str


@dataclass(frozen=True)
class Known:
    """A place of the chain that somebody kept elsewhere."""

    number: int
    hash: str


class Link(NamedTuple):
    """One place of the chain, with the record it names.

    Attributes:
        number: Its number.
        hash: What it was chained with.
        text: Of the record; None if that is gone.
        head: How the text has to begin, by the columns.
    """

    number: int
    hash: str
    text: str | None
    head: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A chained record, as it is handed on."""

    number: int
    hash: str
    text: str

    def line(self) -> str:
        """It as a line of JSON; the text stands in it as it was hashed."""
        return f'{{"number":{self.number},"hash":"{self.hash}","record":{self.text}}}\n'


def seal(number: int, hash: str, at: str) -> str:  # noqa: A002 - its name
    """What a checkpoint signs: that the chain has this hash at this number, at that instant."""
    return f"manent audit checkpoint\n{number}\n{hash}\n{at}"


Signed = Callable[[str, str, str], bool]
"""Whether a key, by its name, has signed a text: key, text, signature."""
OPENED: Final = "restore.opened"
"""The action of a record that states the gap before it: numbers a restored database has lost."""
_REMEMBERED: Final = 20_000
_IS_CHECKPOINT: Final = f'"action":"{CHECKPOINT}"'


class Walk:
    """Goes along the chain from its beginning.

    Args:
        known: A place that must be in it.
        signed: Asked about checkpoints; None: nobody is trusted, they are only counted.
        ask: For the beginning of a number's text once more, by its columns, where the one
            that came with it is not the text's: the database writes it, and may quote it
            in another way.

    Attributes:
        number: Of the last record that was good.
        hash: Its hash.
        checkpoints: How many there were.
        gaps: Numbers that are in no chain, first and last, each stated by the record after them:
            a restored database has lost them.
        signed_to: The number up to which one whose key is trusted has signed.
    """

    def __init__(
        self,
        known: Known | None = None,
        signed: Signed | None = None,
        ask: Callable[[int], str] = lambda _: NO_BEGINNING,
    ) -> None:
        self.checkpoints = 0
        self.gaps: list[tuple[int, int]] = []
        self.signed_to: int | None = None
        self._signed = signed
        # Hashes of the last numbers: a checkpoint names one of a moment ago.
        self._hashes: deque[str] = deque(maxlen=_REMEMBERED)
        self.number = 0
        self.hash = GENESIS
        self._known = known
        self._ask = ask

    def along(self, places: Iterable[Sequence[Any]]) -> Break | None:
        """Go on by many; the first thing that is wrong, if anything.

        It says what `step` says to each of them, and looks closer only where something is not as
        with nearly all: a million are checked.

        Args:
            places: The values of links.
        """
        # What is written out here is `step`, `begins` and `link`: calls would double its time.
        kept = self._known.number if self._known is not None else 0
        number, last, sha256, remember = self.number, self.hash, hashlib.sha256, self._hashes.append
        for place, said, text, head in places:
            found = sha256(f"{last}\n{place}\n{text}".encode()).hexdigest()
            if (
                found == said
                and place == number + 1
                and place != kept
                and text is not None
                and text.startswith(head)
                and not text.startswith(_OF_COLUMNS, len(head))
                and CHECKPOINT not in head
            ):
                number, last = place, found
                remember(found)
                continue
            self.number, self.hash = number, last
            wrong = self.step(Link(place, said, text, head))
            if wrong is not None:
                return wrong
            number, last = self.number, self.hash
        self.number, self.hash = number, last
        return None

    def step(self, place: Link) -> Break | None:
        """Go on by one; what is wrong there, if anything."""
        wrong = self._hole(place) or self._wrong(place) or self._unsigned(place)
        if wrong is not None:
            return wrong
        known = self._known
        if known is not None and self.number < known.number < place.number:
            detail = f"number {known.number} was lost with a database that was restored"
            return Break("lost", known.number, detail)
        if known is not None and known.number == place.number and known.hash != place.hash:
            detail = f"number {known.number} has another hash than the one that was kept"
            return Break("rewritten", known.number, detail)
        if place.number > self.number + 1:
            self.gaps.append((self.number + 1, place.number - 1))
        self.number, self.hash = place.number, place.hash
        self._hashes.append(place.hash)
        return None

    def _unsigned(self, place: Link) -> Break | None:
        """What is wrong with a checkpoint."""
        if place.text is None or _IS_CHECKPOINT not in place.text:
            return None
        record = parse(place.text)
        if record["action"] != CHECKPOINT:
            return None
        self.checkpoints += 1
        if self._signed is None:
            return None
        wrong = self._forged(record)
        if wrong is not None:
            return Break("checkpoint", place.number, f"the checkpoint {place.number} {wrong}")
        self.signed_to = int(record["detail"]["number"])
        return None

    def _forged(self, record: Mapping[str, Any]) -> str | None:
        detail = record["detail"] or {}
        number, said = detail.get("number"), detail.get("hash")
        if not isinstance(number, int):
            return "names no number"
        back = self._place(self.number) - self._place(number)
        if not 0 <= back < len(self._hashes) or self._hashes[-1 - back] != said:
            return "names a place that is not in the chain"
        text = seal(number, said, record["at"])
        key, signature = str(detail.get("key")), str(detail.get("signature"))
        if self._signed is not None and not self._signed(key, text, signature):
            return "is not signed by a key that is trusted"
        return None

    def end(self) -> Break | None:
        """What is wrong with where the chain ends, if anything."""
        known = self._known
        if known is None or known.number <= self.number:
            return None
        detail = f"the chain ends at number {self.number}, number {known.number} was in it"
        return Break("cut", self.number + 1, detail)

    def _place(self, number: int) -> int:
        """How many records are in the chain up to a number."""
        return number - sum(last - first + 1 for first, last in self.gaps if first <= number)

    def _hole(self, place: Link) -> Break | None:
        if place.number == self.number + 1:
            return None
        first, last = self.number + 1, place.number - 1
        if _states(place, first, last):
            return None
        named = f"number {first} is" if first == last else f"numbers {first} to {last} are"
        return Break("hole", first, f"{named} missing from the chain")

    def _wrong(self, place: Link) -> Break | None:
        number = place.number
        if place.text is None:
            return Break("missing", number, f"the record of number {number} is gone")
        if link(self.hash, number, place.text) != place.hash:
            detail = f"number {number} has another text, or another hash, than it was chained with"
            return Break("changed", number, detail)
        if not begins(place.text, place.head) and not begins(place.text, self._ask(number)):
            detail = f"the columns of number {number} say something else than its text"
            return Break("changed", number, detail)
        return None


def _states(place: Link, first: int, last: int) -> bool:
    """Whether a record says that the numbers before it are in no chain."""
    # Whether it is the record's text at all is seen to afterwards, as of every record.
    if place.text is None or f'"action":"{OPENED}"' not in place.text:
        return False
    try:
        record = parse(place.text)
    except ValueError:
        return False
    detail = record["detail"] or {}
    return record["action"] == OPENED and (detail.get("first"), detail.get("last")) == (first, last)
