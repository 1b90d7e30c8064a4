"""Making the programs a Python hook starts inherit the attempt's lock file.

`subprocess` closes every descriptor it was not told of. A program that lost the lock file could
outlive its guard without anybody who asks the file knowing of it.
"""

import functools
import os
import subprocess
from typing import Any


def hand_on(descriptor: int) -> None:
    """From now on every `subprocess.Popen` of this process passes this descriptor on."""
    original = subprocess.Popen.__init__

    @functools.wraps(original)
    def start(self: subprocess.Popen[Any], *arguments: Any, **options: Any) -> None:
        passed = tuple(options.get("pass_fds", ()))
        if options.get("close_fds", True) and descriptor not in passed and _is_open(descriptor):
            options["pass_fds"] = (*passed, descriptor)
        original(self, *arguments, **options)

    # The one door that every way to start a program goes through.
    subprocess.Popen.__init__ = start  # type: ignore[method-assign]


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
