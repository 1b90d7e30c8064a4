"""The tables of the record, as the first revision makes them, and what keeps them as written.

Whoever may change a table's definition may take the triggers away: they guard against mistakes
and against roles that may only write. What tells of the rest is the chain.
"""

from collections.abc import Callable, Iterator

import sqlalchemy as sa

from manent_migrations.column import BIG, at, count, text
from manent_migrations.naming import Naming

Create = Callable[..., None]
KEPT = {"audit": ("entry", "id"), "audit_chain": ("number", "entry")}
"""Tables whose rows are never changed and never removed, and by what each row is the only one."""


def create_tables(name: Naming, create: Create) -> None:
    """Records, their chain, what waits for its place in it, and the positions of sinks."""
    is_checkpoint = sa.text("action = 'audit.checkpoint'")
    create(
        "audit",
        sa.Column("entry", BIG, primary_key=True, autoincrement=True),
        text("id"),
        at("at", null=False),
        text("actor"),
        text("action"),
        text("deploy", null=True),
        text("application", null=True),
        text("environment", null=True),
        text("record"),
        sa.UniqueConstraint("id", name="manent_audit_id"),
        sa.Index(name.index("audit_deploy"), "deploy"),
        sa.Index(name.index("audit_at"), "at"),
        sa.Index(
            name.index("audit_checkpoints"),
            "entry",
            sqlite_where=is_checkpoint,
            postgresql_where=is_checkpoint,
        ),
    )
    create(
        "audit_chain",
        sa.Column("number", BIG, primary_key=True, autoincrement=False),
        count("entry"),
        text("hash"),
        sa.UniqueConstraint("entry", name="manent_audit_chain_entry"),
    )
    create("audit_waiting", sa.Column("entry", BIG, primary_key=True, autoincrement=False))
    create(
        "audit_positions",
        text("sink", primary=True),
        count("number"),
        at("moved_at", null=False),
        at("failing_since"),
        text("error", null=True),
    )


def guards(name: Naming) -> Iterator[str]:
    """The statements that make rows unchangeable, and every record wait for its number."""
    return _postgres(name) if name.schema else _sqlite(name)


def _sqlite(name: Naming) -> Iterator[str]:
    for table, keys in KEPT.items():
        for verb in ("UPDATE", "DELETE"):
            yield (
                f"CREATE TRIGGER manent_{table}_no_{verb.lower()} BEFORE {verb} "
                f"ON {name.table(table)} BEGIN "
                f"SELECT RAISE(ABORT, '{_refusal(table)}'); END"
            )
        # What makes room for itself (INSERT OR REPLACE) fires no trigger of a deletion.
        is_key = " OR ".join(f"{key} = NEW.{key}" for key in keys)
        is_there = f"EXISTS (SELECT 1 FROM {name.table(table)} WHERE {is_key})"  # noqa: S608 - names of ours
        yield (
            f"CREATE TRIGGER manent_{table}_no_replace BEFORE INSERT ON {name.table(table)} "
            f"WHEN {is_there} BEGIN SELECT RAISE(ABORT, '{_refusal(table)}'); END"
        )
    audit = name.table("audit")
    yield (f"CREATE TRIGGER manent_audit_waits AFTER INSERT ON {audit} BEGIN {_waits(name)}; END")


def _postgres(name: Naming) -> Iterator[str]:
    schema = name.schema
    yield (
        f"CREATE FUNCTION {schema}.audit_is_kept() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'rows of % are never changed or removed', TG_TABLE_NAME "
        "USING ERRCODE = 'insufficient_privilege'; END $$"
    )
    for table in KEPT:
        yield (
            f"CREATE TRIGGER manent_{table}_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE "
            f"ON {schema}.{table} FOR EACH STATEMENT EXECUTE FUNCTION {schema}.audit_is_kept()"
        )
    yield (
        f"CREATE FUNCTION {schema}.audit_waits() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN {_waits(name)}; RETURN NULL; END $$"
    )
    yield (
        f"CREATE TRIGGER manent_audit_waits AFTER INSERT ON {schema}.audit "
        f"FOR EACH ROW EXECUTE FUNCTION {schema}.audit_waits()"
    )


def _refusal(table: str) -> str:
    return f"rows of {table} are never changed or removed"


def _waits(name: Naming) -> str:
    table = f"{name.schema}.audit_waiting" if name.schema else name.table("audit_waiting")
    return f"INSERT INTO {table} (entry) VALUES (NEW.entry)"  # noqa: S608 - our own names
