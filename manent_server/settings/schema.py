"""Every key of manent.yml, once: its type, its default and what it does.

The loader reads by these declarations; the reference page and `manent.yml.example` are printed
from them.
"""

from collections.abc import Mapping
from typing import Any

from manent_server.settings import checks, stage, values
from manent_server.settings.access import ACCESS
from manent_server.settings.audit import AUDIT
from manent_server.settings.chat import CHAT
from manent_server.settings.kinds import (
    Choice,
    DatabaseUrl,
    Duration,
    File,
    Name,
    Number,
    Or,
    Size,
    Text,
    Whole,
)
from manent_server.settings.notify import NOTIFY
from manent_server.settings.server import SERVER
from manent_server.settings.structures import (
    REQUIRED,
    SECTION,
    Empty,
    Free,
    Key,
    Layer,
    ListOf,
    Section,
    TableOf,
)
from manent_server.settings.target import TARGET_MAP, Targets
from manent_server.settings.wave import Waves

# What a reload takes up; every other key needs a restart.
RELOADED = (
    "secrets",
    "environments",
    "target_groups",
    "templates",
    "applications",
    "access",
    "notify",
    "chat",
)


def _check_logs(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (name, f"logs.{name} must be less than logs.deploy_limit")
        for name in ("line_limit", "tail")
        if found[name] >= found["deploy_limit"]
    ]


_DATABASE = Section(
    (
        Key(
            "url",
            DatabaseUrl(),
            "sqlite:///manent.db",
            "beside this file; or postgresql://manent:${DB_PASSWORD}@db/manent",
        ),
        Key("pool", Whole(), "10", "connections kept per process"),
    ),
)

_WORKER = Section(
    (
        Key(
            "concurrency",
            Whole(),
            "64",
            "deploys in flight per pool; a long wait takes no place",
        ),
        Key("hook_processes", Whole(), "16", "hooks at once over all deploys; the rest wait"),
        Key("warm", Whole(0), "2", "hook processes kept ready"),
        Key("pools", ListOf(Name("pool"), least=1, is_unique=True), "[default]", "pools served"),
        Key("workdir", File(), "work", "folder for artifacts and hooks, beside this file"),
        Key("kill_grace", Duration(), "10s", "from SIGTERM to SIGKILL for a hook"),
    ),
    values.Worker,
)

_DBOS = Section(
    (
        Key("drain_timeout", Duration(), "2m", "how long a stop waits for running deploys"),
        Key("polling_interval", Duration(), "200ms", "between two looks at the queue, per pool"),
    ),
    values.Dbos,
)

_RECOVERY_KEYS = (
    Key("heartbeat_interval", Duration(), "15s", "between two signs of life of a worker"),
    Key("stale_after", Duration(), "1m", "silence after which a worker counts as lost"),
    Key(
        "auto_recover_after",
        Duration(zero="off"),
        "0s",
        "silence after which other workers take over by themselves; 0s = off",
    ),
    Key(
        "forget_after",
        Duration(),
        "168h",
        "when a stopped or recovered worker that holds nothing leaves the registry",
    ),
    Key(
        "max_recoveries",
        Whole(),
        "3",
        "deaths of its worker after which a step ends its deploy (poisoned)",
    ),
)
_RECOVERY = Section(_RECOVERY_KEYS, values.Recovery, checks.recovery)

_RETENTION = Section(
    (
        Key("max_age", Duration("off"), "0s", "how long after its end a deploy is kept"),
        Key(
            "keep_releases",
            Whole(0),
            "10",
            "last successes kept whatever their age, per application and environment",
        ),
        Key("interval", Duration(), "1h", "time between two rounds of deleting"),
        Key("keys_max_age", Duration(), "8760h", "how long idempotency keys are kept"),
    ),
    values.Retention,
)

_LOGS = Section(
    (
        Key("line_limit", Size(), "16KiB", "longest line kept whole"),
        Key("deploy_limit", Size(), "50MiB", "most kept of one deploy's log"),
        Key("tail", Size(), "5MiB", "how much of that is its end; the gap is named"),
    ),
    values.Logs,
    _check_logs,
)

EXTERNAL = Section(
    (
        Key(
            "command",
            ListOf(Text("text", checks.some_text), least=1),
            REQUIRED,
            "executable and its arguments, no shell",
        ),
    ),
    lambda command: command,
)

_PLUGINS = Section(
    (
        Key(
            "external",
            TableOf(EXTERNAL, "external plugin"),
            "{}",
            "plugins that are executables, by name",
        ),
    ),
    values.Plugins,
)

_ARTIFACT = Section(
    (
        Key(
            "url",
            Text("file or http(s) URL", checks.artifact_url),
            REQUIRED,
            "where it lies; {application}, {environment}, {target} and {version} are filled in",
        ),
        Key(
            "sha256",
            Or(Text("64 hexadecimal digits", checks.sha256)),
            "null",
            "digest it must have; null = whatever the deploy says or the URL gives",
        ),
    ),
    values.ArtifactSource,
)

_RETRY = Section(
    (
        Key("attempts", Whole(), "3", "tries of one hook in all"),
        Key("initial", Duration(), "1s", "wait before the second try"),
        Key("factor", Number(1), "2", "by how much each wait is longer than the one before"),
        Key("cap", Duration(), "1m", "longest wait"),
        Key("total", Duration(), "15m", "no further try is begun so long after the first"),
    ),
    values.Retry,
)

PLACEMENT = Section(
    (
        Key("plugin", Name("plugin"), REQUIRED, "which plugin acts"),
        Key("artifact", Or(_ARTIFACT), "null", "what a version consists of"),
        Key("options", Free(), "{}", "options of the plugin, checked by it"),
        Key("retry", _RETRY, SECTION, "how failed and timed-out hooks are tried again"),
        Key("targets", Targets(), REQUIRED, "where it is deployed to"),
        Key("waves", Waves(), "null", "which targets go first, e.g. [1, 25%, rest]; null = one"),
        Key("max_parallel", Whole(), "4", "targets of one wave at once"),
        Key("soak", Duration(zero="none"), "0s", "wait after each wave but the last"),
        Key("timeout", Duration(), "10m", "longest run of one hook"),
        Key("deadline", Duration(), "1h", "longest deploy, from its first step"),
    ),
)


_ENVIRONMENTS_OF = Key(
    "environments",
    TableOf(Layer(PLACEMENT.keys), "environment"),
    "{}",
    "what differs there; being named is what places an application in an environment",
)
TEMPLATE = Layer((*PLACEMENT.keys, _ENVIRONMENTS_OF))
APPLICATION = Layer(
    (
        Key("template", Or(Name("template")), "null", "template whose values come below these"),
        *PLACEMENT.keys,
        _ENVIRONMENTS_OF,
    )
)

ENVIRONMENT = Section(
    (
        Key(
            "tier",
            Choice(("development", "staging", "production")),
            REQUIRED,
            "what kind of stage it is",
        ),
        Key(
            "concurrency",
            Or(Whole()),
            "null",
            "deploys at once, never two of one application; null = environment_concurrency",
        ),
        Key("pool", Name("pool"), "default", "pool whose workers deploy here"),
        Key(
            "rollback",
            Choice(("automatic", "manual")),
            "automatic",
            "automatic: a failed deploy takes back the targets it touched",
        ),
        Key(
            "on_exhausted",
            Choice(("fail", "pause")),
            "fail",
            "pause: a step that has used up its tries waits for a person",
        ),
        *stage.GATES,
        Key("defaults", Layer(PLACEMENT.keys), SECTION, "lowest layer of every application here"),
    ),
)

TOP = Section(
    (
        Key(
            "include",
            ListOf(Text("path or pattern", checks.some_text)),
            "[]",
            "more files, e.g. [applications/*.yml], beside this one",
        ),
        Key("server", SERVER, SECTION, "listeners and the public address"),
        Key("database", _DATABASE, SECTION, "the one database"),
        Key(
            "executor_id",
            Or(Text("text", checks.executor_id)),
            "null",
            "name of this worker, never that of another; null = host name",
        ),
        Key("environment_concurrency", Whole(), "1", "default of environments.<name>.concurrency"),
        Key("worker", _WORKER, SECTION, "what one worker does at once, and where"),
        Key("dbos", _DBOS, SECTION, "waits of the engine"),
        Key("recovery", _RECOVERY, SECTION, "when a worker counts as lost"),
        Key("retention", _RETENTION, SECTION, "how long things are kept"),
        Key(
            "restore_guard",
            Choice(("fence", "warn")),
            "fence",
            "a database that went back in time: fence = a person decides first; warn = a log line",
        ),
        Key("logs", _LOGS, SECTION, "caps of the deploys' logs"),
        Key("audit", AUDIT, SECTION, "where the record of who did what goes besides the database"),
        Key("secrets", Empty(), "{}", "further secret stores; env and file exist always"),
        Key("plugins", _PLUGINS, SECTION, "plugins beside the installed ones"),
        ACCESS,
        NOTIFY,
        CHAT,
        Key("environments", TableOf(ENVIRONMENT, "environment"), "{}", "the stages, by name"),
        Key(
            "target_groups",
            TableOf(TARGET_MAP, "target group"),
            "{}",
            "sets of targets used by name; a target's value is its own plugin options",
        ),
        Key(
            "templates",
            TableOf(TEMPLATE, "template"),
            "{}",
            "what several applications have in common, by name",
        ),
        Key(
            "applications",
            TableOf(APPLICATION, "application"),
            "{}",
            "what is deployed, by name",
        ),
    ),
)
