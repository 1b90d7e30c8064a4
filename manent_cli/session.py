"""One run of the command line: where it reads from, writes to, and whom it asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from manent_cli.errors import BadUsage
from manent_cli.output import FORMATS, STRUCTURED, Output
from manent_cli.pace import Pace
from manent_cli.talk import Talk

if TYPE_CHECKING:
    from manent_cli.client import Client


@dataclass(eq=False, repr=False)
class Session:
    """What a command works with.

    Args:
        environ: The environment.
        stdout: For data.
        stderr: For talk.
        pace: How fast waiting commands ask.
        stdin: Where a person answers; None for nobody.
    """

    environ: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO
    pace: Pace = field(default_factory=Pace)
    stdin: TextIO | None = None
    form: str | None = None
    context: str | None = None
    url: str | None = None

    @cached_property
    def output(self) -> Output:
        """Standard output, in the form that was asked for."""
        return Output(self.stdout, self.form)

    @cached_property
    def talk(self) -> Talk:
        """Standard error."""
        return Talk(self.stderr, self.environ)

    @cached_property
    def client(self) -> "Client":
        """The server that flags, environment and contexts name."""
        from manent_cli.client import Client  # noqa: PLC0415 - help and completion need no HTTP
        from manent_cli.profile import resolve  # noqa: PLC0415 - neither the contexts

        chosen = resolve(self.environ, context=self.context, url=self.url)
        return Client(chosen.url, chosen.token, environ=self.environ, context=chosen.token_of)

    @property
    def is_structured(self) -> bool:
        """Whether a program reads what this command prints."""
        return self.form in STRUCTURED

    @property
    def has_bare_names(self) -> bool:
        """Whether only ids or names are printed, which are known before a deploy ends."""
        return self.form in {None, "name"}

    def confirm(self, question: str) -> bool:
        """Whether a person at a terminal says yes; where nobody sits, it is as written."""
        if self.stdin is None or not self.stdin.isatty() or not self.talk.is_terminal:
            return True
        self.talk.say(f"{question} [y/N]")
        return self.stdin.readline().strip().lower() in {"y", "yes"}

    def set_form(self, flag: str | None) -> None:
        """Take the form of `--output`, else of `MANENT_OUTPUT`.

        Raises:
            BadUsage: There is no such form.
        """
        form = flag or self.environ.get("MANENT_OUTPUT") or None
        if form is not None and form not in FORMATS:
            source = "--output" if flag else "MANENT_OUTPUT"
            raise BadUsage(f"{source} {form!r} is no form", next="one of " + ", ".join(FORMATS))
        self.form = form
