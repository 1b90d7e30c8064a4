"""Waiting for the end of a deploy, through restarts and cuts on the way to the server."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NoReturn

from manent_cli import exit_codes
from manent_cli.client import Client, segment
from manent_cli.errors import DeployEnded, Failure, Interrupted, TimeOver, Unapproved
from manent_cli.noun import deploy_row
from manent_cli.pace import Deadline, insist
from manent_cli.progress import Progress
from manent_cli.session import Session

Object = dict[str, Any]
_PAGE, _PAGES = 5000, 8


@dataclass(frozen=True)
class Wish:
    """What is waited for.

    Args:
        version: The version that was asked for; an end with another one is no success.
        is_told: Whether steps and log are told, or only states.
        awaits_approval: Whether it is waited for while people are asked.
    """

    version: str | None = None
    is_told: bool = True
    awaits_approval: bool = True


def _newest(steps: Sequence[Object]) -> list[Object]:
    """The steps of the pass that is at work: those of a pass before it were told in its time."""
    newest = max((step.get("pass") or 1 for step in steps), default=1)
    return [step for step in steps if (step.get("pass") or 1) == newest]


class Follower:
    """Follows one deploy, by its id: never "the latest"."""

    def __init__(self, session: Session, address: str, wish: Wish, *, deadline: Deadline) -> None:
        self._client: Client = session.client
        self._pace = session.pace
        self._wish = wish
        self._deadline = deadline
        self._path = f"/deploys/{segment(address)}"
        self._after = 0
        self._has_more = wish.is_told
        self._has_lines = False
        self._why = ""
        self._why_at = self._pace.monotonic()
        self.progress = Progress(session.talk, session.pace)
        self.last: Object = {"id": address}

    def until_end(self) -> Object:
        """The deploy once it has ended.

        Raises:
            TimeOver: It had not by the end of the waiting time.
            Unapproved: It waits for approval, which is not waited for.
        """
        delay = 0.0
        while True:
            self.last = self._ask()
            if exit_codes.has_ended(self.last):
                return self._end()
            changed = self.progress.deploy(self.last)
            if not self._wish.awaits_approval and exit_codes.awaits_approval(self.last):
                raise Unapproved(self.last, why=self._explained())
            changed = self._tell() or changed
            delay = self._next(delay, changed=changed)
            self.progress.heartbeat(self._reason())
            if self._deadline.is_over:
                self._stop_waiting()
            self._pace.sleep(self._deadline.left(delay))

    def _next(self, delay: float, *, changed: bool) -> float:
        # A log that grows is looked at often, but not as often as something new happens.
        if changed or not delay:
            return self._pace.first
        most = self._pace.lively if self._has_lines else self._pace.longest
        return min(self._pace.after(delay), most)

    def _end(self) -> Object:
        # The last lines may be stored a moment after the end.
        until = self._pace.monotonic() + self._pace.settle
        while self._tell() or self._has_lines or self._may_come(until):
            if not self._has_lines:
                self._pace.sleep(self._pace.first)
        self.progress.deploy(self.last)
        return self.last

    def _may_come(self, until: float) -> bool:
        return self._has_more and self._pace.monotonic() < until

    def _ask(self) -> Object:
        try:
            return insist(
                lambda timeout: self._client.get_deploy(self._path, timeout=timeout),
                pace=self._pace,
                deadline=self._deadline,
                trouble=self.progress.trouble,
            )
        except Failure as failure:
            if failure.is_passing and self._deadline.is_over:
                self._stop_waiting(failure)
            raise

    def _stop_waiting(self, failure: Failure | None = None) -> NoReturn:
        address = self.last["id"]
        raise TimeOver(
            f"still running, id {address}: the waiting time is over, the deploy goes on",
            why=f"{failure.what}: {failure.why}" if failure else self._explained(),
            next=f"manent wait {address}, or manent cancel {address}",
        )

    def _tell(self) -> bool:
        # Steps and log are for the reader: trouble with them never decides about the wait.
        if not self._wish.is_told:
            return False
        steps = _newest(self._glance(f"{self._path}/steps").get("items", ()))
        failed = [step for step in steps if step.get("state") == "waiting" and step.get("error")]
        running = [step for step in steps if step.get("state") == "running"]
        ended = [step for step in steps if step.get("state") not in {"running", "waiting"}]
        began = [step for step in running if self.progress.begin(step)]
        # Not for ever: a log that grows as fast as it is read must not hide the end.
        lines = sum(takewhile(bool, (self._log() for _ in range(_PAGES))))
        over = [step for step in (*failed, *ended) if self.progress.end(step)]
        self._has_lines = lines > 0
        return bool(began or over)

    def _log(self) -> int:
        page = self._glance(f"{self._path}/logs", {"after": self._after, "limit": _PAGE})
        items = [item for item in page.get("items", ()) if item["sequence"] > self._after]
        for item in items:
            self._after = item["sequence"]
            self.progress.log(item)
        self._has_more = not page.get("ended", False)
        return len(items)

    def _glance(self, path: str, query: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        try:
            page = self._client.get(path, query, timeout=max(self._deadline.left(30.0), 1.0))
        except Failure:
            return {}
        return page if isinstance(page, dict) else {}

    def _reason(self) -> str:
        """Why a deploy that does not run yet does not, asked as seldom as it is told."""
        if self.last.get("state") == "PENDING":
            self._why = ""
        elif self._pace.monotonic() - self._why_at >= self._pace.heartbeat:
            self._why_at = self._pace.monotonic()
            self._why = self._explained()
        return self._why

    def _explained(self) -> str:
        if self.last.get("state") == "PENDING":
            return ""
        return str(self._glance(f"{self._path}/explain").get("summary") or "")


def finish(session: Session, address: str, wish: Wish, *, deadline: Deadline) -> Object:
    """Wait for the end of a deploy and give it, whatever it is.

    Raises:
        TimeOver: The waiting time is over.
        Unapproved: It waits for approval, which is not waited for.
        Interrupted: Somebody pressed Ctrl-C; the deploy goes on.
    """
    follower = Follower(session, address, wish, deadline=deadline)
    with _told_to_end():
        try:
            return follower.until_end()
        except KeyboardInterrupt as error:
            _print_last(session, follower)
            raise Interrupted(
                f"no longer waiting; deploy {address} goes on",
                next=f"manent wait {address}, or manent cancel {address}",
            ) from error
        except (TimeOver, Unapproved):
            _print_last(session, follower)
            raise


def _print_last(session: Session, follower: Follower) -> None:
    if session.is_structured:
        print_deploy(session, follower.last)


def conclude(deploy: Object, wish: Wish) -> int:
    """The exit code of an ended deploy.

    Raises:
        DeployEnded: It did not end as asked.
    """
    code = exit_codes.of_deploy(deploy, asked=wish.version)
    if code != exit_codes.OK:
        raise DeployEnded(deploy, exit_code=code, asked=wish.version)
    return code


def print_deploy(session: Session, deploy: Object) -> None:
    """Print a deploy in the form asked for; its id alone when none was."""
    session.output.written(deploy, "deploy", lambda wide: deploy_row(deploy, wide=wide))


@contextmanager
def _told_to_end() -> Iterator[None]:
    """Take SIGTERM, by which CI ends a job, like Ctrl-C: say that the deploy goes on."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
