"""The order outlives the code that wrote it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import order as orders
from manent_server.domain.order import Order
from tests.unit.domain import values


@given(values.orders())
def test_an_order_comes_back_from_json_as_it_was(order: Order):
    body = orders.dump(order)
    assert orders.load(json.loads(json.dumps(body, sort_keys=True))) == order


@given(values.orders())
def test_the_digest_does_not_depend_on_the_order_of_keys(order: Order):
    body = orders.dump(order)
    turned = dict(reversed(body.items()))
    assert orders.digest(body) == orders.digest(turned)
    assert len(orders.digest(body)) == 64


def test_another_order_has_another_digest():
    one, other = values.order(("a",)), values.order(("b",))
    assert orders.digest(orders.dump(one)) != orders.digest(orders.dump(other))


def test_a_shape_of_another_build_is_refused():
    body = orders.dump(values.order(("a",))) | {"shape": 2}
    with pytest.raises(ValueError, match="order of shape 2; this build reads 1"):
        orders.load(body)


@given(values.orders(), st.data())
def test_a_part_of_the_targets_keeps_its_waves(order: Order, data: st.DataObject):
    chosen = data.draw(st.lists(st.sampled_from(sorted(order.targets)), min_size=1))
    part = orders.only(order, chosen)
    assert set(part.targets) == set(chosen)
    assert all(part.waves)
    left = [t for wave in part.waves for t in wave]
    assert left == [t for wave in order.waves for t in wave if t in chosen]
    assert part.limits == order.limits
