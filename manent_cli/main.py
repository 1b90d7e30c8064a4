"""The door of `manent`: answers `--version` itself, hands everything else on."""

import sys
from collections.abc import Sequence

from manent_cli import __version__


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
    from os import environ  # noqa: PLC0415, TID251 - the one place of the client that reads it

    # Nothing that the imports make is garbage; looking for it is a twentieth of the start.
    gc.set_threshold(50_000)
    from manent_cli.running import run  # noqa: PLC0415 - not for `--version`

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A name the terminal's encoding cannot show must not end a deploy's wait.
            stream.reconfigure(errors="backslashreplace")
    code = run(arguments, environ=environ, stdout=sys.stdout, stderr=sys.stderr, stdin=sys.stdin)
    # Nor what is left at the end: the process goes away with it.
    gc.freeze()
    return code
