"""A transaction pooler is refused by name, a session pooler is fine."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from manent_server.domain.errors import ConfigurationError
from manent_server.store.engine import Engines, connect, dispose
from manent_server.store.migrate import migrate
from manent_server.store.pooler import refuse_transaction_pooler
from manent_server.store.transaction import Store
from tests.integration.store import rows
from tests.integration.store.pgbouncer import MISSING, PgBouncer, is_installed
from tests.integration.store.test_migrate import QUICK
from tests.rig.postgres import Postgres

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not is_installed(), reason=MISSING),
]
MINUTE = timedelta(minutes=1)
Behind = Callable[..., Engines]


@pytest.fixture
def behind(postgres_server: Postgres, postgres_url: str, tmp_path: Path) -> Iterator[Behind]:
    """Engines that reach a fresh database through a pooler."""
    made: list[tuple[PgBouncer, Engines]] = []

    def make(mode: str, *, size: int = 6, turns: bool = False) -> Engines:
        pooler = PgBouncer(tmp_path, server=postgres_server.port, mode=mode, size=size, turns=turns)
        url = sa.make_url(postgres_url).set(port=pooler.port).render_as_string()
        engines = connect(url, pool=2, stale_after=MINUTE)
        made.append((pooler, engines))
        return engines

    yield make
    for pooler, engines in made:
        dispose(engines)
        pooler.close()


@pytest.mark.parametrize("size", [1, 2, 3, 6])
@pytest.mark.parametrize("turns", [False, True])
def test_a_transaction_pooler_is_refused(behind: Behind, size: int, turns: bool) -> None:  # noqa: FBT001 - a parameter of pytest
    """B38: refused at start, naming what is needed; never half-working."""
    engines = behind("transaction", size=size, turns=turns)
    with pytest.raises(ConfigurationError) as caught:
        refuse_transaction_pooler(engines)
    assert caught.value.code == "transaction_pooler"
    assert "session" in caught.value.next
    assert "statement_timeout" in caught.value.next


def test_a_busy_transaction_pooler_is_refused(behind: Behind) -> None:
    """B38: also when other clients have warmed its connections up."""
    engines = behind("transaction", size=4, turns=True)
    held = [engines.lone.connect() for _ in range(3)]
    for connection in held:
        connection.exec_driver_sql("SELECT 1")
    for connection in held:
        connection.close()
    with pytest.raises(ConfigurationError):
        refuse_transaction_pooler(engines)


def test_a_statement_pooler_is_refused(behind: Behind) -> None:
    with pytest.raises(ConfigurationError):
        refuse_transaction_pooler(behind("statement"))


def test_migrations_do_not_begin_behind_a_transaction_pooler(behind: Behind) -> None:
    """B131: the session lock of migrations would hold nobody off there."""
    with pytest.raises(ConfigurationError, match="transaction pooler"):
        migrate(behind("transaction"), library=QUICK, patience=timedelta(seconds=5))


def test_a_session_pooler_is_fine(behind: Behind) -> None:
    engines = behind("session")
    migrate(engines, library=QUICK, patience=MINUTE)
    store = Store(engines)
    store.repeat(lambda transaction: rows.add(transaction, "number"))
    with store.read() as transaction:
        shown = transaction.connection.exec_driver_sql("SHOW statement_timeout").scalar_one()
    assert shown == "30s"
    assert rows.names(store) == {"number"}


def test_without_a_pooler_nothing_is_refused(engines: Engines) -> None:
    refuse_transaction_pooler(engines)
