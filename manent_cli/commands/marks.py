"""What keeps deploys from starting: locks, freezes, holds, vetoes, and the emergency stop."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from manent_cli import exit_codes
from manent_cli.asking import ask
from manent_cli.client import segment
from manent_cli.errors import BadUsage, Failure
from manent_cli.options import Options, command, new_app, options
from manent_cli.session import Session
from manent_cli.table import draw, field

app = new_app()


@options
class Place(Options):
    """What a lock, a freeze or a hold is on."""

    environment: Annotated[
        str | None, typer.Argument(metavar="[ENV]", help="The environment; else all of them.")
    ] = None
    application: Annotated[
        str | None, typer.Option(metavar="APP", help="The application; else all of them.")
    ] = None


@options
class Thaw(Place):
    """What `unfreeze` takes."""

    id: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this freeze, of several there.")
    ] = None


@options
class List(Place):
    """What `marks` takes."""

    sort: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SORT", help="Only these: lock, freeze, hold, veto, stop. May be repeated."
        ),
    ] = None


@options
class Version(Options):
    """What a veto is on."""

    application: Annotated[str, typer.Argument(metavar="APP", help="The application.")]
    version: Annotated[str, typer.Argument(metavar="VERSION", help="The version.")]
    environment: Annotated[
        str | None, typer.Option(metavar="ENV", help="The environment; else all of them.")
    ] = None


@options
class Setting(Options):
    """Why, and until when."""

    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; others read it.")]
    expires_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it ends; RFC 3339 with offset.")
    ] = None
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The idempotency key. Made up if not given.")
    ] = None


@options
class Mark(Setting, Place):
    """What `lock` and `hold` take."""


@options
class Freeze(Mark):
    """What `freeze` takes."""

    starts_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it begins; else now.")
    ] = None


@options
class Veto(Setting, Version):
    """What `veto` takes."""


@options
class Nothing(Options):
    """A command without options of its own."""


@options
class Unveto(Options):
    """What `unveto` takes."""

    application: Annotated[str | None, typer.Argument(metavar="[APP]", help="The application.")] = (
        None
    )
    version: Annotated[str | None, typer.Argument(metavar="[VERSION]", help="The version.")] = None
    environment: Annotated[
        str | None, typer.Option(metavar="ENV", help="The environment; else all of them.")
    ] = None
    id: Annotated[str | None, typer.Option(metavar="ID", help="Only this veto.")] = None


_LISTED = (
    field("id"),
    field("sort"),
    field("environment"),
    field("application"),
    field("version"),
    field("owner"),
    field("reason"),
    field("starts_at"),
    field("expires_at"),
    field("command", head="LIFTED BY"),
    field("created_at", is_wide=True),
    field("automatic", is_wide=True),
    field("deploy", is_wide=True),
)
_COLUMNS = (
    field("id"),
    field("environment"),
    field("application"),
    field("version"),
    field("owner"),
    field("reason"),
    field("starts_at"),
    field("expires_at"),
)
_PATHS = {
    "lock": "/locks",
    "freeze": "/freezes",
    "hold": "/holds",
    "veto": "/vetoes",
    "stop": "/stops",
}


@command(app, "marks", List)
def marks(session: Session, given: List) -> None:
    """List what keeps deploys from starting anywhere, and the command that lifts each."""
    query = {**_place(given), "sort": given.sort}
    session.output.many(
        session.client.get("/marks", query),
        _LISTED,
        name=lambda one: f"{one.get('sort')}/{one['id']}",
    )


@command(app, "lock", Mark)
def lock(session: Session, given: Mark) -> None:
    """Keep deploys from starting. Prints the id of the lock."""
    _set(session, "lock", given)


@command(app, "unlock", Place)
def unlock(session: Session, given: Place) -> None:
    """Lift the locks on exactly this environment and application. Prints their ids."""
    _lift_place(session, "lock", given)


@command(app, "freeze", Freeze)
def freeze(session: Session, given: Freeze) -> None:
    """Plan a time in which no deploy starts. Prints the id of the freeze."""
    _set(session, "freeze", given)


@command(app, "unfreeze", Thaw)
def unfreeze(session: Session, given: Thaw) -> None:
    """Lift the freeze on exactly this environment and application. Prints its id.

    Of several, one that is planned for later among them perhaps, --id names the one that is meant.
    """
    wanted = _place(given)
    if given.id is not None:
        wanted = {"id": given.id, **_given(wanted)}
    found = _found(session, "freeze", wanted, _words(given))
    if len(found) > 1:
        raise Failure(
            f"there are {len(found)} freezes on {_words(given)}: {'; '.join(map(_said, found))}",
            next="name the one that is meant with --id",
            code="freeze_ambiguous",
            exit_code=exit_codes.USAGE,
        )
    _lift(session, "freeze", found)


@command(app, "hold", Mark)
def hold(session: Session, given: Mark) -> None:
    """Keep schedules and promotions from starting deploys; people still can."""
    _set(session, "hold", given)


@command(app, "unhold", Place)
def unhold(session: Session, given: Place) -> None:
    """Lift the holds on exactly this environment and application. Prints their ids."""
    _lift_place(session, "hold", given)


@command(app, "veto", Veto)
def veto(session: Session, given: Veto) -> None:
    """Keep a version out. Prints the id of the veto."""
    _set(session, "veto", given)


@command(app, "unveto", Unveto)
def unveto(session: Session, given: Unveto) -> None:
    """Lift the vetoes on exactly this version, there or everywhere, or one by its id."""
    wanted = {name: getattr(given, name) for name in ("application", "version", "environment")}
    where = f" in {given.environment}" if given.environment else ""
    on = f"{given.application or 'every application'} {given.version or ''}{where}"
    if given.id is not None:
        wanted = {"id": given.id, **_given(wanted)}
    elif given.version is None:
        raise BadUsage("unveto needs APP and VERSION, or --id", next="manent marks lists vetoes")
    _lift(session, "veto", _found(session, "veto", wanted, on))


@command(app, "stop", Setting)
def stop(session: Session, given: Setting) -> None:
    """Emergency: nothing starts anywhere until `manent resume-all`. Prints the id of the stop."""
    _set(session, "stop", given)


@command(app, "resume-all", Nothing)
def resume_all(session: Session, _given: Nothing) -> None:
    """Lift the emergency stop. Prints the ids of what was lifted."""
    _lift(session, "stop", _found(session, "stop", {}, "everything"))


_FIELDS = ("application", "environment", "version", "reason", "starts_at", "expires_at")


def _set(session: Session, sort: str, given: Setting) -> None:
    body = {name: getattr(given, name, None) for name in _FIELDS}
    fields = {name: value for name, value in body.items() if value is not None}
    made = ask(session, _PATHS[sort], fields, key=given.key)
    if isinstance(made, dict) and made.get("lifted_at"):
        raise Failure(
            f"the {sort} {made.get('id')} of this key was lifted at {made['lifted_at']}",
            next=f"another --key sets a new {sort}",
            code=f"{sort}_lifted",
        )
    _printer(session, sort)(made)


def _lift_place(session: Session, sort: str, given: Place) -> None:
    _lift(session, sort, _found(session, sort, _place(given), _words(given)))


def _place(given: Place) -> dict[str, str | None]:
    return {"environment": given.environment, "application": given.application}


def _given(wanted: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name: value for name, value in wanted.items() if value is not None}


def _words(given: Place) -> str:
    environment = given.environment or "all environments"
    return f"{given.application} in {environment}" if given.application else environment


def _said(one: Mapping[str, Any]) -> str:
    begins = f" from {one['starts_at']}" if one.get("starts_at") else ""
    ends = f" until {one['expires_at']}" if one.get("expires_at") else ""
    return f"{one['id']}{begins}{ends} ({str(one.get('reason'))[:60]})"


def _found(
    session: Session, sort: str, wanted: Mapping[str, str | None], on: str
) -> list[Mapping[str, Any]]:
    found = [
        one
        for one in session.client.get(_PATHS[sort])["items"]
        if all(one.get(name) == value for name, value in wanted.items())
    ]
    if not found:
        place = {name: wanted.get(name) for name in ("application", "environment")}
        # A name that is unknown is refused here, and the nearest one is named.
        session.client.get("/marks", place)
        raise Failure(
            f"there is no {sort} on {on}" + (f" with id {wanted['id']}" if "id" in wanted else ""),
            next="manent marks lists what there is",
            code="not_found",
            exit_code=exit_codes.NOT_FOUND,
        )
    return found


def _lift(session: Session, sort: str, found: Sequence[Mapping[str, Any]]) -> None:
    for one in found:
        session.client.delete(f"{_PATHS[sort]}/{segment(one['id'], what=sort)}")
        _printer(session, sort)(one)


def _printer(session: Session, sort: str) -> Callable[[Mapping[str, Any]], None]:
    def show(one: Mapping[str, Any]) -> None:
        session.output.written(one, sort, lambda wide: draw(_COLUMNS, [one], wide=wide))

    return show
