"""What a failure of the machine or of the database is to whoever gave a command."""
# ruff: noqa: PLC0415 - a command that failed before it needed a database loads none now

import errno
import sys
from typing import Final

from manent_server.domain.errors import ConfigurationError, ManentError, Unavailable

_FULL: Final = {errno.ENOSPC, errno.EDQUOT}


def told(error: BaseException) -> ManentError | None:
    """The error in a sentence and a next step; None where only a traceback helps."""
    if isinstance(error, OSError):
        return _of_a_file(error)
    # Only who has loaded the library can have met its errors.
    return _of_the_database(error) if "sqlalchemy" in sys.modules else None


def _of_a_file(error: OSError) -> ManentError | None:
    if error.errno in _FULL:
        where = f" for {error.filename}" if error.filename else ""
        return Unavailable(f"there is no room left{where}", next="make room on that disk")
    if not error.filename or not error.strerror:
        return None
    return ConfigurationError(
        f"{error.filename}: {error.strerror}",
        next="let this user read and write there, or name another place",
    )


def _of_the_database(error: BaseException) -> ManentError | None:
    from manent_server.store.examination import said
    from manent_server.store.repeat import is_transient, unavailable

    found = said(error)
    if found is None:
        return None
    words, advice = found
    if is_transient(error):
        known = unavailable(error)
        return Unavailable(f"{known.detail}: {words}", next=known.next)
    if advice is None:
        return None
    return ConfigurationError(f"database.url: {words}", next=advice)
