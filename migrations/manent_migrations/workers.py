"""The tables of workers and leases, as the first revision makes them."""

from collections.abc import Callable

from manent_migrations.column import at, count, flag, json, text

Create = Callable[..., None]


def create_tables(create: Create) -> None:
    create(
        "executors",
        text("id", primary=True),
        text("incarnation"),
        text("version"),
        text("build"),
        text("hostname"),
        text("boot"),
        text("pid_namespace"),
        at("started_at", null=False),
        at("heartbeat_at", null=False),
        at("stopped_at"),
        flag("draining"),
        json("pools"),
        json("plugins"),
        json("running"),
        text("configuration", null=True),
        text("recovered_by", null=True),
    )
    create(
        "leases",
        text("name", primary=True),
        text("holder"),
        count("token"),
        at("until", null=False),
    )
