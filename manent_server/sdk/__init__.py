"""What plugin authors import: everything a plugin needs, nothing else of the server."""

from manent_server.sdk.context import Artifact, Context, Log, Observation, Previous
from manent_server.sdk.errors import HookFailure, PermanentFailure, RetryLater
from manent_server.sdk.hooks import hookimpl, hookspec
from manent_server.sdk.options import Options, Template, template
from manent_server.sdk.service import start_service

__all__ = [
    "Artifact",
    "Context",
    "HookFailure",
    "Log",
    "Observation",
    "Options",
    "PermanentFailure",
    "Previous",
    "RetryLater",
    "Template",
    "hookimpl",
    "hookspec",
    "start_service",
    "template",
]
