"""What manent.yml means: frozen, typed, complete."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from manent_server.domain.access import Grant
from manent_server.domain.rules import Rules
from manent_server.domain.secret import Secret
from manent_server.settings.node import Table


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Certificate and key of the API's listener."""

    certificate: Path
    key: Path


@dataclass(frozen=True, kw_only=True)
class Log:
    """The server's own log."""

    level: Literal["debug", "info", "warning", "error"]
    format: Literal["auto", "text", "json"]


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How often somebody may ask; 0 is no limit.

    Attributes:
        per_caller: Requests a second of one principal.
        public: Requests a second of one address to what needs no sign-in.
        failed_sign_ins: Of one address, a minute.
    """

    per_caller: int
    public: int
    failed_sign_ins: int


@dataclass(frozen=True, kw_only=True)
class Server:
    """Listeners and the public address."""

    listen: str
    metrics_listen: str | None
    url: str
    trusted_proxies: tuple[str, ...]
    tls: Tls | None
    body_limit: int
    header_limit: int
    rates: Rates
    log: Log


@dataclass(frozen=True, kw_only=True)
class Database:
    """The one database; `shown` is the URL without its password."""

    url: Secret
    pool: int
    shown: str = ""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """What one worker does at once, and where."""

    concurrency: int
    hook_processes: int
    warm: int
    pools: tuple[str, ...]
    workdir: Path
    kill_grace: timedelta


@dataclass(frozen=True, kw_only=True)
class Dbos:
    """The engine's waits."""

    drain_timeout: timedelta
    polling_interval: timedelta


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """When a worker counts as lost; `auto_recover_after` 0 is off."""

    heartbeat_interval: timedelta
    stale_after: timedelta
    auto_recover_after: timedelta
    forget_after: timedelta
    max_recoveries: int


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long things are kept; `max_age` 0 keeps the history for ever."""

    max_age: timedelta
    keep_releases: int
    interval: timedelta
    keys_max_age: timedelta


@dataclass(frozen=True, kw_only=True)
class Logs:
    """Caps of a deploy's log, in bytes."""

    line_limit: int
    deploy_limit: int
    tail: int


@dataclass(frozen=True, kw_only=True)
class Plugins:
    """Plugins that are executables: name and argument list."""

    external: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class NoticeRetry:
    """How a notice that failed is tried again."""

    initial: timedelta
    factor: float
    cap: timedelta
    total: timedelta


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """A receiver of events; its address may hold a token, `secret` may be one or name one."""

    plugin: Literal["webhook"]
    url: Secret
    secret: tuple[Secret, ...]
    events: tuple[str, ...]
    applications: tuple[str, ...]
    environments: tuple[str, ...]
    allow_networks: tuple[str, ...]
    timeout: timedelta
    retry: NoticeRetry


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Where people sign in."""

    issuer: str
    client_id: str
    groups_claim: str | None


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Which jobs of a CI may what: those whose token has one of the values of every claim."""

    issuer: str
    audience: str
    claims: Mapping[str, tuple[str, ...]]
    role: str
    applications: tuple[str, ...]
    environments: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who a person is elsewhere; `ids` by system: github, gitlab, slack, ..."""

    groups: tuple[str, ...]
    principals: tuple[str, ...]
    ids: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Access:
    """Who may do what; `roles` by group, `people` by login."""

    oidc: Mapping[str, Provider] = field(default_factory=dict)
    trust: Mapping[str, Trust] = field(default_factory=dict)
    roles: Mapping[str, tuple[Grant, ...]] = field(default_factory=dict)
    people: Mapping[str, Person] = field(default_factory=dict)
    groups_max_age: timedelta = timedelta(hours=24)

    def login_of(self, principal: str) -> str | None:
        """The person that acts under this name."""
        if principal in self.people:
            return principal
        return next((who for who, one in self.people.items() if principal in one.principals), None)

    def login_at(self, system: str, id_there: str) -> str | None:
        """The person with this id at a system such as `github` or `slack`."""
        found = self.people.items()
        return next((who for who, one in found if one.ids.get(system) == id_there), None)


@dataclass(frozen=True, kw_only=True)
class Chat:
    """A channel in which approvals are asked for; `token` and `signing_secret` may name secrets."""

    plugin: Literal["slack", "mattermost", "matrix", "generic"]
    url: str | None
    token: Secret | None
    signing_secret: tuple[Secret, ...]
    channel: str | None
    team: str | None
    app: str | None
    from_networks: tuple[str, ...]
    allow_networks: tuple[str, ...]
    timeout: timedelta


@dataclass(frozen=True, kw_only=True)
class Environment:
    """One stage; `concurrency` is filled in from `environment_concurrency`."""

    name: str
    tier: Literal["development", "staging", "production"]
    concurrency: int
    pool: str
    rollback: Literal["automatic", "manual"]
    on_exhausted: Literal["fail", "pause"]
    rules: Rules = field(default_factory=Rules)


@dataclass(frozen=True, kw_only=True)
class ArtifactSource:
    """Where a version's artifact lies; the URL still holds its placeholders."""

    url: str
    sha256: str | None


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How a failed hook is tried again."""

    attempts: int
    initial: timedelta
    factor: float
    cap: timedelta
    total: timedelta


@dataclass(frozen=True, kw_only=True)
class Placement:
    """One application in one environment, all layers merged."""

    plugin: str
    artifact: ArtifactSource | None
    targets: Mapping[str, Mapping[str, Any]]
    waves: tuple[tuple[str, ...], ...]
    max_parallel: int
    soak: timedelta
    timeout: timedelta
    deadline: timedelta
    retry: Retry


@dataclass(frozen=True, kw_only=True)
class Application:
    """What is deployed, by the environments it is placed in."""

    name: str
    environments: Mapping[str, Placement]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The nodes one placement was read from, targets with all their options."""

    merged: Table
    targets: Mapping[str, Table]


@dataclass(frozen=True)
class AuditSink:
    """A receiver of the record: `address` is tls://HOST:PORT, `ca` None the system's trust."""

    format: str
    address: str
    ca: Path | None
    certificate: Path | None
    key: Path | None


@dataclass(frozen=True)
class Audit:
    """Where the record goes besides the database; `file` is `-` for stdout, None for none."""

    file: Path | str | None
    file_limit: int
    key: Path | None
    trusted_keys: tuple[Path, ...]
    sinks: Mapping[str, AuditSink]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The whole configuration.

    Attributes:
        digest: sha256 of what all processes of one installation must agree on: everything but
            `executor_id`, the database password and where the files lie.
        modified_at: Newest change of the files, UTC.
        files: manent.yml first, then the included ones as read.
        inheriting: Environments whose concurrency is `environment_concurrency`.
        origins: Where each placement came from, by application and environment.
    """

    server: Server
    database: Database
    executor_id: str
    environment_concurrency: int
    worker: Worker
    dbos: Dbos
    recovery: Recovery
    retention: Retention
    restore_guard: str
    logs: Logs
    audit: Audit
    secrets: Mapping[str, Any]
    plugins: Plugins
    notify: Mapping[str, Webhook]
    access: Access
    chat: Mapping[str, Chat]
    environments: Mapping[str, Environment]
    applications: Mapping[str, Application]
    path: Path
    files: tuple[Path, ...]
    modified_at: datetime
    digest: str
    inheriting: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    origins: Mapping[tuple[str, str], Origin] = field(
        default_factory=dict, compare=False, repr=False
    )
