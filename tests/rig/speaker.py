"""A talkative hook: prints what the tests of logs need, at full speed and byte for byte.

Run as `python -S -E speaker.py WORD [ARGUMENT ...]` by the `command` plugin.
"""

import os
import sys
import time


def write_all(data: bytes) -> None:
    """Write to standard output without any buffer of Python's."""
    while data:
        data = data[os.write(1, data) :]


def dirty() -> None:
    """Bytes that are no UTF-8, NUL, escape sequences; then a megabyte of text."""
    write_all(b"\xb2\xff\xfe\n")
    write_all(b"nul \x00 bell \x07 colour \x1b[31mred\x1b[0m\n")
    write_all(b"carriage\rreturn\r\n")
    write_all(b"x" * 100_000 + b"\n")
    for number in range(10_000):
        write_all(b"line %07d %s\n" % (number, b"." * 87))
    write_all("last \u00fc\U0001f680".encode())


def flood(lines: str, output: str) -> None:
    """As many lines as asked for, into the log or into a file."""
    with open(output, "wb", buffering=65536) as file:  # noqa: PTH123 - also descriptors' paths
        for number in range(int(lines)):
            file.write(b"line %d of a program that says very much\n" % number)


def wide(lines: str, size: str) -> None:
    """Long lines."""
    for number in range(int(lines)):
        write_all(b"%06d " % number + b"w" * int(size) + b"\n")


def count(told: str) -> None:
    """A counter line every millisecond in the log and in a file; only the first attempt."""
    attempt = os.environ["MANENT_ATTEMPT"]  # noqa: TID251 - a hook's context
    if attempt != "1":
        write_all(b"attempt %s\n" % attempt.encode())
        return
    descriptor = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for number in range(60_000):
        os.write(descriptor, b"%d %.3f\n" % (number, time.clock_gettime(time.CLOCK_BOOTTIME)))
        write_all(b"%d\n" % number)
        time.sleep(0.001)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
