"""Which keys of two orders differ."""

from dataclasses import replace

from manent_server.domain import difference
from manent_server.domain import order as orders
from manent_server.domain.difference import Change
from tests.unit.domain.values import order

BEFORE = orders.dump(order(("a", "b")))


def test_the_same_order_has_no_differences():
    assert difference.changes(BEFORE, BEFORE) == ()


def test_keys_are_named_and_values_are_not():
    after = orders.dump(order(("a",), ("c",), soak=5))
    assert difference.changes(BEFORE, after) == (
        Change("limits.soak", "changed"),
        Change("targets.b.host", "removed"),
        Change("targets.c.host", "added"),
        Change("waves", "changed"),
    )


def test_what_the_request_alone_decides_is_no_configuration():
    after = orders.dump(replace(order(("a", "b")), collision="latest", returns=True))
    assert difference.changes(BEFORE, after) == ()


def test_a_first_deploy_adds_everything():
    assert {one.change for one in difference.changes(None, BEFORE)} == {"added"}
