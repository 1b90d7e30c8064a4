"""Every refusal and failure a person can meet, as one tree.

An error says what happened (`detail`), carries a stable `code` and what to do next
(`next`). The HTTP status of each class stands in `manent_server.api.problem`, nowhere else.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any


class ManentError(Exception):
    """The root: something a caller should be told.

    Args:
        detail: One sentence: what is wrong, naming the thing.
        code: Stable machine word, e.g. `name_invalid`; defaults to the class's own.
        next: One sentence: what to do about it.
        errors: Single findings `{path, message}` of a body or a file.
        facts: Further fields of the problem body (an explain body, a blocking deploy).
    """

    code = "error"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        next: str = "",  # noqa: A002 - the field's name in the problem body
        errors: Sequence[Mapping[str, Any]] = (),
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or type(self).code
        self.next = next
        self.errors = tuple(errors)
        self.facts = dict(facts or {})


class Malformed(ManentError):
    """The request cannot be read (400)."""

    code = "malformed"


class NotSignedIn(ManentError):
    """No token, or one that is unknown, expired or revoked (401).

    `told` is what the record says of it beside, and the answer does not.
    """

    code = "not_signed_in"
    told: Mapping[str, Any] = MappingProxyType({})


class NotAllowed(ManentError):
    """The caller is known but lacks the right (403)."""

    code = "not_allowed"


class NotFound(ManentError):
    """A well-formed name or address that names nothing (404)."""

    code = "not_found"


class Conflict(ManentError):
    """The state of things forbids it; nothing was created (409)."""

    code = "conflict"


class Refused(Conflict):
    """Policy refuses it: a closed gate nobody opens, a busy place (409)."""

    code = "refused"


class Invalid(ManentError):
    """Well-formed but not acceptable (422)."""

    code = "invalid"


class NameInvalid(Invalid):
    """A name or version outside its grammar (422)."""

    code = "name_invalid"


class KeyReused(Invalid):
    """An idempotency key that came with another body before (422)."""

    code = "idempotency_key_reused"


class Unavailable(ManentError):
    """The database does not answer; nothing was done (503)."""

    code = "unavailable"


class ConfigurationError(ManentError):
    """manent.yml or the environment cannot be used (exit 2)."""

    code = "configuration_invalid"


class StartRefused(ManentError):
    """The process cannot run now; another start later may (exit 75)."""

    code = "start_refused"
