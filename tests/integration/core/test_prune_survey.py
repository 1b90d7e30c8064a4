"""What retention keeps is found without reading the whole history."""

from typing import Any

import sqlalchemy as sa

from manent_server.store import retention
from tests.integration.core.pruning import old_good
from tests.rig.core import Core


def test_what_was_given_up_is_found_without_reading_every_deploy(core: Core) -> None:
    old_good(core, "v0", 200)
    asked: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, values: Any, *___: Any) -> None:
        if statement.startswith("SELECT"):
            asked.append((statement, values))

    with core.store.read() as tx:
        connection = tx.connection
        sa.event.listen(connection, "before_cursor_execute", note)
        retention.given_up(tx)
        sa.event.remove(connection, "before_cursor_execute", note)
        is_postgres = tx.dialect == "postgresql"
        if is_postgres:  # there are few: it would read them all
            connection.exec_driver_sql("SET enable_seqscan = off")
        explain = "EXPLAIN" if is_postgres else "EXPLAIN QUERY PLAN"
        undone, back = (
            " ".join(str(row) for row in connection.exec_driver_sql(f"{explain} {one}", values))
            for one, values in asked
        )
        connection.invalidate()  # what was set goes with it
    assert "manent_deploys_outcome" in undone
    assert "manent_deploys_cancel_rollback" in undone
    assert "manent_deploys_rollback" in back
