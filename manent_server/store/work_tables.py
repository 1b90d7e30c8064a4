"""Steps, attempts, logs and inventory; workers; people's marks."""

import sqlalchemy as sa

from manent_server.store.column import Big
from manent_server.store.naming import Naming, at, count, index, json, table, text


def work(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """What passes did, and what they left."""
    return {
        **table(meta, name, "steps", *_steps(name)),
        **table(meta, name, "attempts", *_attempts(name)),
        **table(meta, name, "logs", *_logs(name)),
        **table(meta, name, "inventory", *_inventory(name)),
    }


def _deploy(name: Naming) -> sa.ForeignKey:
    return name.key("id", "deploys", on_delete="CASCADE")


def _steps(name: Naming) -> list[sa.schema.SchemaItem]:
    """The units of a pass."""
    return [
        sa.Column("deploy", sa.Text, _deploy(name), primary_key=True),
        sa.Column("pass_number", sa.Integer, primary_key=True),
        text("name", primary=True),
        sa.Column("position", sa.Integer, nullable=False),
        text("hook"),
        text("target", null=True),
        sa.Column("wave", sa.Integer, nullable=True),
        text("state"),
        sa.Column("failures", sa.Integer, nullable=False),
        json("outputs"),
        json("error"),
        json("checkpoint"),
        at("started_at"),
        at("next_try_at"),
        at("ended_at"),
        # The deploy that performed it, where this one took its result over.
        text("carried_from", null=True),
    ]


def _attempts(name: Naming) -> list[sa.schema.SchemaItem]:
    """The runs of hooks."""
    return [
        text("id", primary=True),
        sa.Column("deploy", sa.Text, _deploy(name), nullable=False),
        sa.Column("pass_number", sa.Integer, nullable=False),
        text("step"),
        sa.Column("attempt", sa.Integer, nullable=False),
        text("application"),
        text("environment"),
        text("hook"),
        text("target"),
        text("plugin"),
        count("epoch"),
        text("executor"),
        text("incarnation"),
        text("hostname"),
        text("boot"),
        text("pid_namespace"),
        text("lock_file"),
        at("handed_out_at", null=False),
        at("lease_until"),
        at("ended_at"),
        text("result", null=True),
        # Whether its worker died under it without a recorded stop; NULL where nobody had to ask.
        sa.Column("died", sa.Boolean, nullable=True),
        # What a person said of an attempt of which nobody knew whether it had done its work.
        text("resolved", null=True),
        json("error"),
        json("outputs"),
        json("checkpoint"),
        json("progress"),
        sa.UniqueConstraint(
            "deploy", "pass_number", "step", "attempt", name="manent_attempts_number"
        ),
        index(name, "attempts_place", ["environment", "application", "ended_at"]),
        index(name, "attempts_executor", ["executor", "ended_at"]),
    ]


def _logs(name: Naming) -> list[sa.schema.SchemaItem]:
    """Output, several lines to a row."""
    return [
        sa.Column("deploy", sa.Text, _deploy(name), primary_key=True),
        # One row holds consecutive lines of one stream: `sequence` is the first one's number.
        sa.Column("sequence", Big, primary_key=True, autoincrement=False),
        sa.Column("lines", sa.Integer, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        at("at", null=False),
        text("step", null=True),
        sa.Column("attempt", sa.Integer, nullable=True),
        text("stream"),
        text("level", null=True),
        text("text"),
        text("executor", null=True),
    ]


def _inventory(name: Naming) -> list[sa.schema.SchemaItem]:
    """What runs on each target."""
    return [
        text("application", primary=True),
        sa.Column("environment", sa.Text, name.key("name", "environments"), primary_key=True),
        text("target", primary=True),
        text("version", null=True),
        text("sha256", null=True),
        text("configuration", null=True),
        json("outputs"),
        at("since", null=False),
        sa.Column("deploy", sa.Text, name.key("id", "deploys"), nullable=False),
        text("state"),
        index(name, "inventory_deploy", ["deploy"]),
    ]


def workers(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """The registry of executors, and the leases of loops."""
    executors: list[sa.schema.SchemaItem] = [
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
        sa.Column("draining", sa.Boolean, nullable=False),
        json("pools"),
        json("plugins"),
        json("running"),
        text("configuration", null=True),
        text("recovered_by", null=True),
    ]
    leases: list[sa.schema.SchemaItem] = [
        text("name", primary=True),
        text("holder"),
        count("token"),
        at("until", null=False),
    ]
    return {
        **table(meta, name, "executors", *executors),
        **table(meta, name, "leases", *leases),
    }


def people(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """What people put in the way of deploys."""
    marks: list[sa.schema.SchemaItem] = [
        text("id", primary=True),
        # lock, freeze, hold, veto or stop
        text("sort"),
        text("application", null=True),
        text("environment", null=True),
        text("version", null=True),
        text("reason"),
        text("owner"),
        at("created_at", null=False),
        at("starts_at"),
        at("expires_at"),
        at("lifted_at"),
        text("lifted_by", null=True),
        sa.Column("automatic", sa.Boolean, nullable=False),
        sa.Column(
            "deploy", sa.Text, name.key("id", "deploys", on_delete="SET NULL"), nullable=True
        ),
        index(name, "marks_in_force", ["lifted_at", "expires_at"]),
        index(name, "marks_deploy", ["deploy"]),
    ]
    return {**table(meta, name, "marks", *marks)}
