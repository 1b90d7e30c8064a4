"""Starting a process that is meant to outlive the hook that starts it."""

import fcntl
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

_ERROR_LIMIT = 4096
_ANSWERS = 3


def start_service(
    argv: Sequence[str], *, workdir: Path, environment: Mapping[str, str] | None, log: Path
) -> int:
    """Start a detached process and return its pid.

    It gets a session of its own, no descriptor of the hook (not the attempt's lock file either)
    and no word of the attempt in its environment: nothing ties it to the hook, which may return.
    A hook that is cancelled, times out or loses its lease takes the services it started with it.

    Args:
        argv: Program and arguments; the program is looked up in PATH.
        workdir: The current directory of the service.
        environment: All of its environment; None for the hook's own without MANENT_ names.
        log: The file that its stdout and stderr are appended to.

    Raises:
        OSError: It could not be started; nothing is left behind.
    """
    variables = _variables() if environment is None else dict(environment)
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    middle = os.fork()
    if middle == 0:
        _detach(writer, argv, workdir, variables, log)  # pragma: no cover - in the child
    os.close(writer)
    with open(reader, "rb") as answers:  # noqa: PTH123 - a descriptor, not a path
        answer = answers.read(_ERROR_LIMIT)
    os.waitpid(middle, 0)
    pid, _, failure = answer.partition(b" ")
    if failure:
        number, _, text = failure.partition(b" ")
        raise OSError(int(number), text.decode(errors="replace"), argv[0])
    return int(pid)


def _variables() -> dict[str, str]:
    inherited = os.environ.items()  # noqa: TID251 - the hook's own environment, handed on
    return {name: value for name, value in inherited if not name.startswith("MANENT_")}


def _detach(  # pragma: no cover - in a process that ends without a word; tested by its effects
    writer: int, argv: Sequence[str], workdir: Path, variables: dict[str, str], log: Path
) -> NoReturn:
    """In the first child: a new session, whose leader goes away and leaves the service."""
    answers = writer
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.write(answers, f"{os.getpid()} ".encode())
        answers = _redirect(writer, log)
        os.chdir(workdir)
        os.execvpe(argv[0], list(argv), variables)  # noqa: S606 - argument lists, no shell
    except OSError as error:
        os.write(answers, f"{error.errno} {error.strerror}".encode())
    finally:
        os._exit(127)


def _redirect(writer: int, log: Path) -> int:  # pragma: no cover - as above
    """Keep 0 (empty), 1 and 2 (the log) and the pipe, now at 3, which the exec closes."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    empty = os.open(os.devnull, os.O_RDONLY)
    kept = [fcntl.fcntl(fd, fcntl.F_DUPFD, 16) for fd in (empty, output, output, writer)]
    for number, fd in enumerate(kept):
        os.dup2(fd, number, inheritable=number != _ANSWERS)
    os.closerange(_ANSWERS + 1, os.sysconf("SC_OPEN_MAX"))
    return _ANSWERS
