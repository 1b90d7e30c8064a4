"""Opening a file somebody else named."""

import errno
import os
import stat
from pathlib import Path
from typing import IO


def open_regular(path: Path) -> IO[bytes]:
    """`path` opened for reading if it is a regular file, else OSError.

    Never waits: a named pipe nobody writes to would hold a blocking open for ever.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return os.fdopen(descriptor, "rb")
