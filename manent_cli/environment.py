"""The variables `manent` knows, and the ones it should warn about."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

VARIABLES: Final[Mapping[str, str]] = {
    "MANENT_URL": "the server, e.g. `https://manent.example`",
    "MANENT_TOKEN": "the token",
    "MANENT_TOKEN_FILE": "a file with the token; `MANENT_TOKEN` wins",
    "MANENT_CONTEXT": "the context to use, a name of `manent context list`",
    "MANENT_OUTPUT": "the default of `--output`",
}
# Read by the server, or given to the hooks of a deploy, which may call `manent` themselves.
_OF_OTHERS: Final = frozenset(
    f"MANENT_{name}"
    for name in (  # noqa: SIM905 - one line each would be a page
        "CONFIG PROTOCOL_IN PROTOCOL_OUT DEPLOY_ID KIND APPLICATION ENVIRONMENT TARGET VERSION "
        "PREVIOUS_VERSION ARTIFACT ATTEMPT EPOCH IDEMPOTENCY_KEY CHECKPOINT CHECKPOINT_FD WORKDIR"
    ).split()
)
# What Kubernetes injects into every pod beside a Service called manent or manent-something.
_OF_A_SERVICE = re.compile(r"MANENT_(\w+_)?(SERVICE_(HOST|PORT)|PORT)(_\w+)?")


def warnings(environ: Mapping[str, str]) -> Iterator[str]:
    """One sentence for each `MANENT_` variable nobody reads."""
    for name in sorted(environ):
        if not name.startswith("MANENT_") or name in VARIABLES or name in _OF_OTHERS:
            continue
        if _OF_A_SERVICE.fullmatch(name):
            continue
        near = get_close_matches(name, VARIABLES, n=1, cutoff=0.8)
        yield f"{name} is set, but nothing reads it" + (f": {near[0]}?" if near else "")
