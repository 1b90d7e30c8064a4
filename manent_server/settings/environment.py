"""`MANENT_` variables: the known ones, and nothing that only looks like one."""

import re
from collections.abc import Mapping
from typing import Any

from manent_server.settings.findings import suggestion

# What programs are given, what hooks are given, and the ends of a hook's protocol.
KNOWN = (
    "MANENT_CONFIG",
    "MANENT_URL",
    "MANENT_TOKEN",
    "MANENT_TOKEN_FILE",
    "MANENT_CONTEXT",
    "MANENT_OUTPUT",
    "MANENT_DEPLOY_ID",
    "MANENT_KIND",
    "MANENT_APPLICATION",
    "MANENT_ENVIRONMENT",
    "MANENT_TARGET",
    "MANENT_VERSION",
    "MANENT_PREVIOUS_VERSION",
    "MANENT_ARTIFACT",
    "MANENT_ATTEMPT",
    "MANENT_EPOCH",
    "MANENT_IDEMPOTENCY_KEY",
    "MANENT_CHECKPOINT",
    "MANENT_CHECKPOINT_FD",
    "MANENT_ATTEMPT_ID",
    "MANENT_WORKDIR",
    "MANENT_PROTOCOL_IN",
    "MANENT_PROTOCOL_OUT",
)
_PREFIX = "MANENT_"
# Kubernetes sets these in every pod beside a Service called manent.
_SERVICE = re.compile(
    r"MANENT_SERVICE_HOST|MANENT_SERVICE_PORT(_[A-Z0-9_]+)?"
    r"|MANENT_PORT(_[0-9]+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)?"
)


def check_environment(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """The variables `serve` refuses to start with, in the shape of configuration errors."""
    return [
        {
            "file": "environment",
            "line": 0,
            "path": name,
            "layer": "environment",
            "message": f"unknown variable {name}; {_suggestion(name)}",
        }
        for name in sorted(environ)
        if name.upper().startswith(_PREFIX) and not _is_known(name)
    ]


def _is_known(name: str) -> bool:
    return name in KNOWN or _SERVICE.fullmatch(name) is not None


def _suggestion(name: str) -> str:
    short = {known.removeprefix(_PREFIX).lower(): known for known in KNOWN}
    found = suggestion(name[len(_PREFIX) :], short)
    like = found.removeprefix("did you mean ").removesuffix("?")
    return f"did you mean {short[like]}?" if like in short else "settings belong in manent.yml"
