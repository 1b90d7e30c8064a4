"""Marks: one line for the begin and one for the end of whatever runs, in a file of the bench."""

import os
import time


def mark(path: str, **facts: str | int) -> None:
    """Append one line with a single write, which the kernel keeps whole.

    The clock is the system's own, so that marks of all processes can be compared.
    """
    words = " ".join(f"{name}={value}" for name, value in facts.items())
    line = f"{time.monotonic():.6f} {words}\n".encode()
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)
