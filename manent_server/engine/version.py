"""Two versions that must not be confused.

`WORKFLOW_VERSION` says how a plan is interpreted: raise it only when that changes, for then
deploys in flight need a worker of the old one. The build is the package's own version.
"""

from importlib import metadata

WORKFLOW_VERSION = "0.1.0"


def build() -> str:
    """The version of the installed package."""
    return metadata.version("manent")
