"""How each thing of the API is shown: its columns, its names, its words."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from manent_cli.table import Column, Row, draw, field, pairs


def deploy_name(deploy: Row) -> str:
    """`deploy/ID`."""
    return f"deploy/{deploy['id']}"


def address(text: str) -> str:
    """The address in an argument that may be written `deploy/ID`, as `-o name` prints it."""
    return text if "#" in text else text.removeprefix("deploy/")


def detail(deploy: Row) -> str:
    """What is beside the state: the outcome of an ended deploy, else its phase and place."""
    if deploy.get("outcome"):
        return str(deploy["outcome"])
    position = deploy.get("position")
    where = f" ({position} in the queue)" if position else ""
    return f"{deploy.get('phase') or ''}{where}"


DEPLOYS: Final[Sequence[Column]] = (
    field("id"),
    field("number", head="#"),
    field("application"),
    field("environment"),
    field("version"),
    field("state"),
    Column("DETAIL", detail),
    field("requested_at"),
    field("kind", is_wide=True),
    field("requested_by", is_wide=True),
    field("started_at", is_wide=True),
    field("ended_at", is_wide=True),
    field("executor", is_wide=True),
    field("reason", is_wide=True),
)
STEPS: Final[Sequence[Column]] = (
    field("step"),
    field("state"),
    field("attempts"),
    field("started_at"),
    field("ended_at"),
    field("pass", is_wide=True),
    Column("ERROR", lambda step: message(step.get("error"))),
)
INVENTORY: Final[Sequence[Column]] = (
    field("application"),
    field("environment"),
    field("target"),
    field("version"),
    field("state"),
    field("since"),
    field("deploy"),
    field("sha256", is_wide=True),
    field("configuration", is_wide=True),
)
GATES: Final[Sequence[Column]] = (
    field("gate"),
    field("closed_since"),
    field("opens_at"),
    field("opened_by"),
    field("detail"),
    field("command"),
)


def message(error: Any) -> str | None:
    """The message of an error object."""
    if isinstance(error, Mapping):
        return str(error.get("message") or error.get("code") or "")
    return str(error) if error else None


def deploy_row(deploy: Row, *, wide: bool) -> str:
    """One deploy as a table of one row."""
    return draw(DEPLOYS, [deploy], wide=wide)


_SHOWN = (  # noqa: SIM905 - one line each would be a page
    "id number application environment version kind state outcome phase position url reason "
    "requested_by requested_at started_at ended_at not_before not_after executor rerun_of "
    "rerun_from "
    "superseded_by override warnings targets"
).split()
_ALSO_WIDE = ["sha256", "priority", "sequence", "root", "pass", "epoch", "workflow_version"]


def deploy_sheet(deploy: Row, steps: Sequence[Row], *, wide: bool) -> str:
    """One deploy with its steps, for people."""
    names = [*_SHOWN, *_ALSO_WIDE] if wide else _SHOWN
    fields = [(name.replace("_", " "), deploy.get(name)) for name in names]
    back, cancel = deploy.get("rollback_to"), deploy.get("cancel")
    if isinstance(back, Mapping):
        fields.append(("goes back to", f"{back.get('version')} of deploy {back.get('deploy')}"))
    if isinstance(cancel, Mapping):
        why = f": {cancel['reason']}" if cancel.get("reason") else ""
        fields.append(("cancelled", f"{cancel.get('requested_at')} by {cancel.get('by')}{why}"))
    asked = deploy.get("schedule")
    if isinstance(asked, Mapping):
        fields.append(("schedule", f"{asked.get('name')}, {asked.get('at')}"))
    error = deploy.get("error")
    if isinstance(error, Mapping):
        where = f"{error['step']}: " if error.get("step") else ""
        fields.append(("error", f"{where}{message(error)}"))
    text = pairs(fields)
    return text + ("\n" + draw(STEPS, steps, wide=wide) if steps else "")
