"""Two versions that must not be confused.

`WORKFLOW_VERSION` says how a plan is interpreted: raise it only when that changes, for then
deploys in flight need a worker of the old one. The build is the package's own version.
"""

from collections.abc import Iterable
from importlib import metadata

from manent_server.domain.errors import ConfigurationError
from manent_server.store.workers import Executor

WORKFLOW_VERSION = "0.1.0"
# Each interpretation this build can run, and the newest shape of an order it reads.
_SHAPES = {"0.1.0": 1}


def build() -> str:
    """The version of the installed package."""
    return metadata.version("manent")


def versions() -> tuple[str, ...]:
    """The workflow versions this build can run, the newest last."""
    return tuple(sorted(_SHAPES, key=_parts))


def demand(version: str) -> str:
    """The version, if this build can run deploys by it.

    Raises:
        ConfigurationError: It cannot.
    """
    if version not in _SHAPES:
        shown = version.encode("unicode_escape").decode("ascii")[:40]
        raise ConfigurationError(
            f"this build ({build()}) cannot run workflow version {shown}",
            code="version_unknown",
            next=f"start a build that can; this one runs {', '.join(versions())}",
        )
    return version


def knows_shape(version: str, shape: int) -> bool:
    """Whether a worker of this workflow version can read an order of this shape."""
    known = _SHAPES.get(version)
    if known is not None:
        return shape <= known
    # What this build does not know yet reads at least what this build writes.
    return _parts(version) > _parts(WORKFLOW_VERSION)


def newest(workers: Iterable[Executor], *, shape: int, plugin: str) -> str | None:
    """What a deploy that never started is stamped with: None while nobody can run it.

    The newest version that one of these live workers of its pool announces; one that lacks
    the plugin would only hand the deploy back.
    """
    able = [
        worker.version
        for worker in workers
        if plugin in worker.plugins and knows_shape(worker.version, shape)
    ]
    return max(able, key=_parts, default=None)


def can_resume(version: str | None, workers: Iterable[Executor]) -> bool:
    """Whether one of these live workers of its pool goes on with a deploy of this version.

    Args:
        version: The deploy's, None while it was never dispatched.
        workers: Such as `store.workers.offering` finds.
    """
    return version is None or any(worker.version == version for worker in workers)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else -1 for part in version.split("."))
