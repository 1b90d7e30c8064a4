"""Standard output: data in the form that was asked for, and nothing else."""

import errno
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

from manent_cli.errors import Failure
from manent_cli.table import Column, draw

FORMATS: Final[Mapping[str, str]] = {
    "table": "columns for people",
    "wide": "more columns",
    "json": "the server's JSON, one document",
    "jsonl": "one JSON object a line",
    "yaml": "the same as YAML",
    "name": "only names, like `deploy/0197...`, one a line",
}
STRUCTURED: Final = frozenset({"json", "jsonl", "yaml"})


class Output:
    """What a command prints on standard output.

    Args:
        stream: Standard output.
        form: One of `FORMATS`; None when nothing was asked for.
    """

    def __init__(self, stream: TextIO, form: str | None) -> None:
        self._stream = stream
        self.form = form
        self.is_closed = False

    @property
    def is_structured(self) -> bool:
        """Whether a program reads this."""
        return self.form in STRUCTURED

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads this as it comes."""
        return self._stream.isatty()

    def one(self, value: Mapping[str, Any], *, name: str, text: Callable[[bool], str]) -> None:
        """Print one object.

        Args:
            value: The object as the server gives it.
            name: Its name for `-o name`.
            text: Draws it for people, given whether `wide` was asked for.
        """
        if self.is_structured:
            self.document(value)
        elif self.form == "name":
            self.write(f"{name}\n")
        else:
            self.write(text(self.form == "wide"))

    def written(self, value: Mapping[str, Any], kind: str, text: Callable[[bool], str]) -> None:
        """Print an object a command made or changed: without a form its id alone."""
        if self.form is None:
            self.write(f"{value['id']}\n")
        else:
            self.one(value, name=f"{kind}/{value['id']}", text=text)

    def document(self, value: Mapping[str, Any]) -> None:
        """Print a value for a program."""
        self.write(self._structured(value))

    def many(
        self,
        page: Mapping[str, Any],
        columns: Sequence[Column],
        *,
        name: Callable[[Mapping[str, Any]], str],
    ) -> None:
        """Print a list: `{items, next}` whole for json and yaml, else item by item."""
        items: Sequence[Mapping[str, Any]] = page["items"]
        if self.form == "jsonl":
            self.write("".join(self._structured(item) for item in items))
        elif self.is_structured:
            self.write(self._structured(page))
        elif self.form == "name":
            self.lines(name(item) for item in items)
        else:
            self.write(draw(columns, items, wide=self.form == "wide"))

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines."""
        self.write("".join(f"{line}\n" for line in lines))

    def write(self, text: str) -> None:
        """Print text now.

        A reader that went away ends the printing, not the command.

        Raises:
            Failure: The output cannot be written: a full disk must not look like success.
        """
        if self.is_closed or not text:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            self._give_up()
        except OSError as error:
            self._give_up()
            if error.errno != errno.EPIPE:
                why = error.strerror or str(error)
                raise Failure("standard output cannot be written", why=why) from error

    def _structured(self, value: Any) -> str:
        if self.form == "yaml":
            from manent_cli.yaml_text import dump  # noqa: PLC0415 - start time

            return dump(value)
        is_utf8 = (self._stream.encoding or "").lower().replace("-", "") in {"utf8", ""}
        indent = 2 if self.form == "json" else None
        return json.dumps(value, ensure_ascii=not is_utf8, indent=indent) + "\n"

    def _give_up(self) -> None:
        self.is_closed = True
        # What is still buffered would be tried again, and fail again, when Python ends.
        sink = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(sink, self._stream.fileno())
        except OSError:
            pass
        finally:
            os.close(sink)
