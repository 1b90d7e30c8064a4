"""What is known of the installation outside of its database: one small file in the work folder.

It is replaced as a whole and on the disk before anybody relies on it, so a crash leaves the one
before. Two processes may share the folder: what is noted there never goes back.
"""

import fcntl
import json
import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from manent_server.domain.installation import Known

_log = logging.getLogger(__name__)
NAME: Final = "installation"
_PRIVATE: Final = 0o600


class InstallationFile:
    """The file in one folder; a folder that cannot be written is said so, once.

    Args:
        folder: Where; made when it is first needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NAME
        self._is_failing = False

    @property
    def is_failing(self) -> bool:
        """Whether the last note could not be written."""
        return self._is_failing

    def known(self, installation: str) -> Known | None:
        """What is noted of an installation; that of another one is put aside.

        One that was put aside before is taken out again: a database may have been made anew by
        mistake before the right one was restored.
        """
        try:
            with self._locked():
                found = self._current(installation)
                return found or self._read(self._aside(installation))
        except OSError as error:
            self._fail(error)
            return None

    def note(self, known: Known) -> None:
        """Note how far an installation has come; what is noted already is never lowered."""
        try:
            with self._locked():
                before = self._current(known.installation)
                after = known if before is None else known.with_all_of(before)
                if after != before:
                    self._write(after)
        except OSError as error:
            self._fail(error)
        else:
            self._is_failing = False

    def _current(self, installation: str) -> Known | None:
        """What the file says of an installation, after whatever else it says was put aside."""
        found = self._read(self._path)
        if found is None or found.installation == installation:
            return found
        aside = self._aside(found.installation)
        self._path.replace(aside)
        _log.warning(
            "%s was noted by another installation, %s, and is put aside as %s",
            self._path,
            found.installation,
            aside.name,
        )
        return None

    def _aside(self, installation: str) -> Path:
        return self._folder / f"{NAME}-{installation}"

    def _read(self, path: Path) -> Known | None:
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            text = ""
        known = _parse(text)
        if known is None:
            broken = path.with_name(f"{path.name}.broken")
            path.replace(broken)
            _log.error("%s cannot be read and is put aside as %s", path, broken.name)
        return known

    def _write(self, known: Known) -> None:
        values = {
            "installation": known.installation,
            "epoch": known.epoch,
            "audit_number": known.number,
        }
        fresh = self._path.with_name(f"{NAME}.{secrets.token_hex(4)}")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE)
        try:
            os.write(handle, (json.dumps(values) + "\n").encode())
            os.fsync(handle)
            fresh.replace(self._path)
            self._sync()
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """The folder, which no other process reads or writes meanwhile."""
        self._folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _sync(self) -> None:
        """The new name of the file is on the disk too."""
        handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _fail(self, error: OSError) -> None:
        if not self._is_failing:
            self._is_failing = True
            _log.error(
                "%s cannot be kept: %s; a restored database may not be noticed", self._path, error
            )


class Glance:
    """The file as a command reads it, and leaves it: its owner is the user the servers run as.

    Args:
        folder: Where it is.
    """

    is_failing = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def known(self, installation: str) -> Known | None:
        """What is noted of an installation, also if that of another one stands there now."""
        for name in (NAME, f"{NAME}-{installation}"):
            path = self._folder / name
            try:
                found = _parse(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError) as error:
                _log.warning("%s cannot be read here: %s", path, error)
                continue
            if found is not None and found.installation == installation:
                return found
        return None

    def note(self, known: Known) -> None:
        """Nothing is kept."""


def _parse(text: str) -> Known | None:
    try:
        found = json.loads(text)
        installation, *numbers = found["installation"], found["epoch"], found["audit_number"]
    except (KeyError, TypeError, ValueError):
        return None
    # It becomes a part of a file's name.
    is_name = isinstance(installation, str) and installation.isalnum()
    is_good = is_name and all(type(number) is int for number in numbers)
    return Known(installation, *numbers) if is_good else None
