"""Who may do what: roles and the rights they carry."""

from dataclasses import dataclass

from manent_server.domain.errors import NotAllowed

READ = "read"
DEPLOY = "deploy"
ROLLBACK = "rollback"
CANCEL = "cancel"
RESOLVE = "resolve"
LOCK = "lock"
SCHEDULE = "schedule"
STOP = "stop"
RESUME = "resume"
OVERRIDE = "override"
PRIORITISE = "prioritise"
ADMINISTER = "administer"

ROLES = {
    "viewer": frozenset({READ}),
    "admin": frozenset(
        {
            READ,
            DEPLOY,
            ROLLBACK,
            CANCEL,
            RESOLVE,
            LOCK,
            SCHEDULE,
            STOP,
            RESUME,
            OVERRIDE,
            PRIORITISE,
            ADMINISTER,
        }
    ),
}


@dataclass(frozen=True)
class Caller:
    """Who asks: the principal's name and the role it acts in."""

    name: str
    role: str

    def may(self, right: str) -> bool:
        """Whether the role carries the right."""
        return right in ROLES[self.role]

    def demand(self, right: str) -> None:
        """Raise `NotAllowed` unless the role carries the right."""
        if not self.may(right):
            raise NotAllowed(
                f"{self.name} has the role {self.role}, which may not {right}",
                next="ask an administrator for a token with a role that may",
            )
