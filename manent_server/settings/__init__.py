"""manent.yml to frozen typed values, or to everything that is wrong with it."""

from manent_server.settings.environment import check_environment
from manent_server.settings.load import external_plugins, load
from manent_server.settings.merged import show
from manent_server.settings.placement import OptionsCheck
from manent_server.settings.values import (
    Application,
    ArtifactSource,
    Database,
    Dbos,
    Environment,
    Log,
    Logs,
    Placement,
    Plugins,
    Recovery,
    Retention,
    Retry,
    Server,
    Settings,
    Tls,
    Worker,
)

__all__ = [
    "Application",
    "ArtifactSource",
    "Database",
    "Dbos",
    "Environment",
    "Log",
    "Logs",
    "OptionsCheck",
    "Placement",
    "Plugins",
    "Recovery",
    "Retention",
    "Retry",
    "Server",
    "Settings",
    "Tls",
    "Worker",
    "check_environment",
    "external_plugins",
    "load",
    "show",
]
