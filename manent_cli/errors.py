"""What can go wrong for somebody at the command line: what, why, and what to do next."""

from collections.abc import Mapping
from typing import Any

from manent_cli import exit_codes


class Failure(Exception):
    """The command did not do what was asked.

    Args:
        what: One sentence naming the thing that failed.
        why: The reason, where it is more than `what` says.
        next: The next move, best a command.
        code: A stable machine word.
        exit_code: The exit code of the process.
    """

    code = "error"
    exit_code = exit_codes.ERROR

    def __init__(
        self,
        what: str,
        *,
        why: str = "",
        next: str = "",  # noqa: A002 - the field's name in the problem body
        code: str | None = None,
        exit_code: int | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.next = next
        self.code = code or type(self).code
        self.exit_code = type(self).exit_code if exit_code is None else exit_code
        self.request_id: str | None = None
        self.is_passing = False

    def body(self) -> dict[str, Any]:
        """The failure as one JSON object."""
        fields = {
            "code": self.code,
            "detail": self.what,
            "why": self.why,
            "next": self.next,
            "request_id": self.request_id,
        }
        return {name: value for name, value in fields.items() if value} | {
            "exit_code": self.exit_code
        }


class BadUsage(Failure):
    """The command line, an environment variable or the contexts file cannot be used."""

    code = "usage"
    exit_code = exit_codes.USAGE


class Unreachable(Failure):
    """No answer: refused, cut, timed out, or not to be trusted."""

    code = "unreachable"

    def __init__(
        self, url: str, why: str, *, is_passing: bool = True, is_cut_off: bool = False
    ) -> None:
        super().__init__(
            f"cannot reach {url}",
            why=why,
            next="check that the server runs and that MANENT_URL or the context names it",
        )
        self.is_passing = is_passing
        self.is_cut_off = is_cut_off


class Strange(Failure):
    """An answer came, but not one a manent server gives."""

    code = "strange_answer"

    def __init__(self, url: str, why: str, *, next: str = "") -> None:  # noqa: A002 - as above
        super().__init__(
            f"{url} does not answer like a manent server",
            why=why,
            next=next or "check that MANENT_URL or the context names a manent server",
        )


_PASSING = frozenset({429, 502, 503, 504})


class Problem(Failure):
    """The server refused or failed, and said so in a problem body.

    Args:
        status: The HTTP status.
        fields: The problem body (RFC 9457 plus `code`, `next`, `request_id`, `errors`).
        retry_after: Seconds the server asks to wait before the next try.
    """

    code = "problem"

    def __init__(
        self, status: int, fields: Mapping[str, Any], *, retry_after: float | None = None
    ) -> None:
        title = _text(fields, "title")
        detail = _text(fields, "detail") or title or f"the server answered {status}"
        super().__init__(
            detail,
            why=_reasons(title if title != detail else "", fields.get("errors")),
            next=_text(fields, "next"),
            code=_text(fields, "code") or f"http_{status}",
            exit_code=exit_codes.of_status(status),
        )
        self.status = status
        self.fields = dict(fields)
        self.request_id = _text(fields, "request_id") or None
        self.retry_after = retry_after
        self.is_passing = status in _PASSING

    def body(self) -> dict[str, Any]:
        """The server's own problem body, with the exit code beside it."""
        known = {"status": self.status, "code": self.code, "detail": self.what}
        return known | self.fields | {"exit_code": self.exit_code}


class DeployEnded(Failure):
    """The deploy ended, and not as asked."""

    code = "deploy_ended"

    def __init__(self, deploy: Mapping[str, Any], *, exit_code: int, asked: str | None) -> None:
        address = str(deploy.get("id"))
        end = f"{deploy.get('state')} ({deploy.get('outcome')})"
        super().__init__(
            f"deploy {address} of {deploy.get('application')} {deploy.get('version')} "
            f"to {deploy.get('environment')} ended {end}",
            why=_why_ended(deploy, asked),
            next=f"see manent show {address}, manent logs {address}",
            exit_code=exit_code,
        )
        self.deploy = dict(deploy)

    def body(self) -> dict[str, Any]:
        """The failure with the end of the deploy beside it."""
        facts = {name: self.deploy.get(name) for name in ("id", "state", "outcome", "error")}
        return super().body() | {"deploy": facts}


class TimeOver(Failure):
    """The waiting time is over; the work goes on."""

    code = "time_over"
    exit_code = exit_codes.TIME_OVER


class Unapproved(Failure):
    """The deploy waits for approval, and the command does not."""

    code = "awaits_approval"
    exit_code = exit_codes.UNAPPROVED

    def __init__(self, deploy: Mapping[str, Any], *, why: str) -> None:
        address = str(deploy.get("id"))
        super().__init__(
            f"deploy {address} waits for approval; it goes on when it has it",
            why=why,
            next=f"manent approve {address}, then manent wait {address}",
        )


class Interrupted(Failure):
    """Somebody pressed Ctrl-C, or the process was told to end."""

    code = "interrupted"
    exit_code = exit_codes.INTERRUPTED

    def __init__(self, what: str = "interrupted", *, next: str = "") -> None:  # noqa: A002 - as above
        super().__init__(what, next=next)


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _reasons(title: str, findings: Any) -> str:
    reasons = [title] if title else []
    for finding in findings if isinstance(findings, list) else []:
        if isinstance(finding, Mapping):
            where = finding.get("path") or finding.get("loc") or ""
            reasons.append(f"{where}: {finding.get('message') or finding.get('msg') or ''}")
    return "; ".join(reasons)


def _why_ended(deploy: Mapping[str, Any], asked: str | None) -> str:
    if asked is not None and deploy.get("version") != asked:
        return f"version {asked} was asked for, not {deploy.get('version')}"
    cancel = deploy.get("cancel")
    if isinstance(cancel, Mapping) and deploy.get("state") == "CANCELLED":
        # Before the error: that of a hook which was stopped says nothing of who stopped it.
        reason = f": {cancel['reason']}" if cancel.get("reason") else ""
        return f"cancelled by {cancel.get('by')}{reason}"
    error = deploy.get("error")
    if isinstance(error, Mapping):
        step = error.get("step")
        return f"{step}: {error.get('message')}" if step else str(error.get("message"))
    if deploy.get("superseded_by"):
        return f"deploy {deploy['superseded_by']} came later"
    return ""
