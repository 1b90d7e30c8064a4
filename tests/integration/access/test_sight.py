"""What somebody sees as SQL is what it sees as a rule, on both databases."""

from itertools import product

import pytest
import sqlalchemy as sa

from manent_server.domain.access import Caller, Grant, Scope
from manent_server.store.sight import touching, within
from tests.rig.postgres import Postgres

NAMES = ("shop", "shop-web", "shop_web", "shopxweb", "mail")
GRANTS = (
    (),
    (Grant("viewer"),),
    (Grant("viewer", ("shop",), ("mail",)),),
    (Grant("viewer", ("shop*",)),),
    (Grant("viewer", ("shop_web", "m??l")), Grant("viewer", environments=("shop?web",))),
    (Grant("viewer"), Grant("viewer", ("shop*",), ("mail",), deny=True)),
    (Grant("viewer"), Grant("viewer", environments=("mail",), deny=True)),
    (Grant("viewer", ("shop", "mail")), Grant("viewer", ("mail",), deny=True)),
    (Grant("viewer"), Grant("viewer", deny=True)),
)


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def places(request: pytest.FixtureRequest):
    """A connection to a table of every pair of names, NULL among them."""
    url = "sqlite://"
    if request.param == "postgres":
        server: Postgres = request.getfixturevalue("postgres_server")
        url = server.create_database().replace("postgresql://", "postgresql+psycopg://")
    engine = sa.create_engine(url)
    table = sa.Table(
        "places", sa.MetaData(), sa.Column("a", sa.Text), sa.Column("e", sa.Text), prefixes=["TEMP"]
    )
    with engine.connect() as connection:
        table.create(connection)
        pairs = product((None, *NAMES), (None, *NAMES))
        connection.execute(table.insert(), [{"a": a, "e": e} for a, e in pairs])
        yield connection, table
    engine.dispose()


@pytest.mark.parametrize("grants", GRANTS)
def test_the_database_and_the_rule_see_the_same(places, grants: tuple[Grant, ...]):
    connection, t = places
    scope: Scope = Caller("vic", grants).scope("read")
    rows = {tuple(row) for row in connection.execute(sa.select(t.c.a, t.c.e))}
    seen = {
        tuple(row)
        for row in connection.execute(touching(sa.select(t.c.a, t.c.e), scope, t.c.a, t.c.e))
    }
    assert seen == {(a, e) for a, e in rows if scope.touches(a, e)}
    whole = sa.select(t.c.a, t.c.e).where(t.c.a.is_not(None), t.c.e.is_not(None))
    inside = {tuple(row) for row in connection.execute(within(whole, scope, t.c.a, t.c.e))}
    assert inside == {(a, e) for a, e in rows if a and e and scope.covers(a, e)}
