"""What a hook raises to say how it failed; any other exception is a failure that may be retried."""

from datetime import timedelta


class HookFailure(Exception):
    """A failure a hook words itself.

    Args:
        message: One sentence for the person who reads the deploy.
        code: Stable machine word for this kind of failure.
    """

    code = "hook_failed"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code


class PermanentFailure(HookFailure):
    """Trying again would change nothing: the step fails now, whatever `retry` says."""

    code = "permanent_failure"


class RetryLater(HookFailure):
    """It did not work yet: try again, after `after` where given, within `retry`."""

    code = "retry_later"

    def __init__(
        self, message: str, *, after: timedelta | None = None, code: str | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.after = after
