"""Policy in force, deploys, the places they take and the instants they wait for."""

import sqlalchemy as sa

from manent_server.store.column import Big
from manent_server.store.naming import Naming, at, count, index, json, table, text


def policy(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """What manent.yml said last, as rows: who wrote it, and what admission reads."""
    policies = table(
        meta,
        name,
        "policies",
        sa.Column("revision", Big, primary_key=True, autoincrement=True),
        text("digest"),
        text("release"),
        at("configured_at", null=False),
        at("written_at", null=False),
        text("written_by"),
        # By login: groups, and names elsewhere; what votes are counted by.
        json("people"),
        # What groups and trust rules give; a vote counts while its voter may approve.
        json("grants"),
    )
    environments = table(
        meta,
        name,
        "environments",
        text("name", primary=True),
        text("tier"),
        text("pool"),
        sa.Column("concurrency", sa.Integer, nullable=False),
        json("rules"),
        sa.Column("is_configured", sa.Boolean, nullable=False),
        count("next_number"),
        count("next_ticket"),
        count("policy_revision"),
    )
    applications = table(
        meta,
        name,
        "applications",
        text("name", primary=True),
        json("environments"),
        sa.Column("is_configured", sa.Boolean, nullable=False),
        count("policy_revision"),
    )
    return {**policies, **environments, **applications}


def deploys(meta: sa.MetaData, name: Naming) -> dict[str, sa.Table]:
    """What was asked for, and how far it came."""
    rows = [*_asked(name), *_progress(name), *_rules(name)]
    return {
        **table(meta, name, "deploys", *rows),
        **table(meta, name, "slots", *_slots(name)),
        **table(meta, name, "wakes", *_wakes(name)),
    }


def _asked(name: Naming) -> list[sa.schema.SchemaItem]:
    """What was accepted, and where it stands."""
    return [
        text("id", primary=True),
        sa.Column("environment", sa.Text, name.key("name", "environments"), nullable=False),
        text("application"),
        count("number"),
        text("kind"),
        text("version"),
        text("sha256", null=True),
        text("state"),
        text("phase", null=True),
        text("outcome", null=True),
        text("reason", null=True),
        text("requested_by"),
        # request, schedule or promotion: whatever is no request is automation.
        text("origin"),
        at("requested_at", null=False),
        json("order_body"),
        sa.Column("order_shape", sa.Integer, nullable=False),
        text("order_digest"),
        text("pool"),
        sa.Column("priority", sa.Integer, nullable=False),
        count("sequence", null=True),
        count("ticket", null=True),
        # When its last gate opened.
        at("queued_at"),
        # The `traceparent` of the request that asked for it; NULL while nothing is traced.
        text("trace", null=True),
        at("not_before"),
        at("not_after"),
        json("override"),
        text("root"),
        sa.Column("rerun_of", sa.Text, name.key("id", "deploys"), nullable=True),
        text("rerun_from", null=True),
        sa.Column("pass_number", sa.Integer, nullable=False),
        sa.Column("dispatch", sa.Integer, nullable=False),
        at("dispatched_at"),
    ]


def _progress(name: Naming) -> list[sa.schema.SchemaItem]:
    """Whose it is, when what happened, and what came of it."""
    return [
        text("workflow_version", null=True),
        count("epoch"),
        text("executor", null=True),
        text("incarnation", null=True),
        at("started_at"),
        at("handed_out_at"),
        at("deadline_at"),
        at("ended_at"),
        at("cancel_requested_at"),
        text("cancel_by", null=True),
        sa.Column("cancel_rollback", sa.Boolean, nullable=False),
        text("cancel_reason", null=True),
        sa.Column("rollback_to", sa.Text, name.key("id", "deploys"), nullable=True),
        sa.Column("promoted_from", sa.Text, name.key("id", "deploys"), nullable=True),
        sa.Column(
            "replaces", sa.Text, name.key("id", "deploys", on_delete="SET NULL"), nullable=True
        ),
        sa.Column(
            "superseded_by", sa.Text, name.key("id", "deploys", on_delete="SET NULL"), nullable=True
        ),
        json("prepared"),
        json("question"),
        json("error"),
        json("warnings"),
        json("links"),
        json("changes"),
        # Who asked, as a person; NULL where no approval can be asked.
        json("requester"),
        # resolving, asked or given; NULL: nobody has to agree.
        text("approval", null=True),
        text("approval_digest", null=True),
        # When time does something about it: a further look, a reminder, the end of the waiting.
        at("approval_at"),
        json("resolved"),
        text("blocked", null=True),
        count("revision"),
        count("log_next"),
        count("log_bytes"),
        count("log_dropped"),
    ]


def _rules(name: Naming) -> list[sa.schema.SchemaItem]:
    """Keys, checks and indexes of deploys."""
    return [
        sa.UniqueConstraint("environment", "number", name="manent_deploys_number"),
        sa.CheckConstraint(
            "state IN ('DELAYED','ENQUEUED','PENDING','SUCCESS','ERROR','CANCELLED')",
            name="manent_deploys_state",
        ),
        index(name, "deploys_recent", ["requested_at", "id"]),
        index(name, "deploys_place", ["application", "environment", "requested_at", "id"]),
        index(name, "deploys_application", ["application", "requested_at", "id"]),
        index(name, "deploys_environment", ["environment", "requested_at", "id"]),
        index(name, "deploys_state", ["state", "requested_at", "id"]),
        index(name, "deploys_version", ["version", "requested_at", "id"]),
        index(name, "deploys_outcome", ["outcome", "requested_at", "id"]),
        index(name, "deploys_sequence", ["application", "environment", "state", "sequence"]),
        index(name, "deploys_good", ["application", "environment", "state", "epoch"]),
        index(name, "deploys_queue", ["environment", "state", "priority", "ticket"]),
        index(name, "deploys_executor", ["executor", "state"]),
        index(name, "deploys_root", ["root"]),
        index(name, "deploys_rerun_of", ["rerun_of"]),
        index(name, "deploys_rollback_to", ["rollback_to"]),
        index(name, "deploys_promoted_from", ["promoted_from"]),
        index(name, "deploys_replaces", ["replaces"]),
        index(name, "deploys_superseded_by", ["superseded_by"]),
        _resolving(name),
        _ended(name),
        *_undone(name),
    ]


def _resolving(name: Naming) -> sa.Index:
    where = sa.text("approval = 'resolving' AND state = 'DELAYED'")
    return sa.Index(
        name.index("deploys_resolving"), "approval_at", sqlite_where=where, postgresql_where=where
    )


def _ended(name: Naming) -> sa.Index:
    # Only what has ended: no earlier change of a deploy has to write it.
    where = sa.text("ended_at IS NOT NULL")
    return sa.Index(
        name.index("deploys_ended"), "ended_at", sqlite_where=where, postgresql_where=where
    )


def _undone(name: Naming) -> list[sa.Index]:
    # Few of many: what retention asks of the whole table.
    given_up = ("deploys_cancel_rollback", "cancel_rollback", "cancel_rollback = 1")
    back = ("deploys_rollback", "kind = 'rollback'", "kind = 'rollback'")
    return [
        sa.Index(
            name.index(index),
            "application", "environment", "version",
            postgresql_where=sa.text(where), sqlite_where=sa.text(lite),
        )
        for index, where, lite in (given_up, back)
    ]  # fmt: skip


def _slots(name: Naming) -> list[sa.schema.SchemaItem]:
    """Taken places."""
    return [
        sa.Column("environment", sa.Text, name.key("name", "environments"), primary_key=True),
        text("application", primary=True),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("deploy", sa.Text, name.key("id", "deploys"), nullable=False, unique=True),
        at("taken_at", null=False),
        sa.UniqueConstraint("environment", "place", name="manent_slots_place"),
    ]


def _wakes(name: Naming) -> list[sa.schema.SchemaItem]:
    """Instants at which a deploy is looked at again."""
    return [
        sa.Column(
            "deploy", sa.Text, name.key("id", "deploys", on_delete="CASCADE"), primary_key=True
        ),
        at("at", null=False),
        text("reason"),
        index(name, "wakes_at", ["at"]),
    ]
