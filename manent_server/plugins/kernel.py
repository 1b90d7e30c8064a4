"""The few system calls Python has no name for."""

import ctypes

_LIBC = ctypes.CDLL(None, use_errno=True)
_SET_DEATH_SIGNAL = 1
_SET_NAME = 15
_SET_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _call(_SET_SUBREAPER, 1)


def die_with_parent(number: int) -> None:
    """Be sent this signal by the kernel when the parent process ends."""
    _call(_SET_DEATH_SIGNAL, number)


def rename(name: str) -> None:
    """Be shown under this name by ps and top."""
    _call(_SET_NAME, name.encode())


def _call(option: int, argument: int | bytes) -> None:
    if _LIBC.prctl(option, argument, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")
