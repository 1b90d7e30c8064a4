"""A plugin with a hook nobody specified."""

from manent_server.sdk import hookimpl


@hookimpl
def deplyo(context):
    """Never called."""
