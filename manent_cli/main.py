"""The door of `manent`: answers `--version` itself, hands everything else on."""

import os
import sys
from collections.abc import Sequence

from manent_cli import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself would be a fifth of the time of `--version`
    from typing import TextIO


def main(argv: Sequence[str] | None = None) -> int:
    """Run `manent` with the process's own arguments, environment and streams."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments == ["--version"]:
        # Answered before anything is imported: it runs in prompts and in CI all day.
        print(f"manent {__version__}")
        return 0
    try:
        return _run(arguments)
    except KeyboardInterrupt:  # before a command could say what that means
        return 130


def _run(arguments: Sequence[str]) -> int:
    import gc  # noqa: PLC0415 - not for `--version`
    import signal  # noqa: PLC0415 - not for `--version`

    environ = os.environ  # noqa: TID251 - the one place of the client that reads it

    # Nothing that the imports make is garbage; looking for it is a twentieth of the start.
    gc.set_threshold(50_000)
    from manent_cli.running import run  # noqa: PLC0415 - not for `--version`

    for number in (signal.SIGTERM, signal.SIGHUP):
        # By these CI and a closed terminal end a command; `nohup` has its way.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _interrupt)
    out, err = _usable(sys.stdout), _usable(sys.stderr)
    code = run(arguments, environ=environ, stdout=out, stderr=err, stdin=sys.stdin)
    # Nor what is left at the end: the process goes away with it.
    gc.freeze()
    return code


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _usable(stream: "TextIO | None") -> "TextIO":
    """A stream anything can be written to; one that was closed before the start takes it all."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - kept open, kept light
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        # A name the terminal's encoding cannot show must not end a deploy's wait.
        reconfigure(errors="backslashreplace")
    return stream
