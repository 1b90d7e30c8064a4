"""Roles carry rights; a caller without one is told so."""

import pytest

from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.domain.errors import NotAllowed


def test_an_administrator_may_do_everything():
    everything = set().union(*access.ROLES.values())
    assert {right for right in everything if Caller("ann", "admin").may(right)} == everything


def test_a_viewer_may_only_read():
    viewer = Caller("vic", "viewer")
    viewer.demand(access.READ)
    with pytest.raises(
        NotAllowed, match=r"vic has the role viewer, which may not deploy"
    ) as caught:
        viewer.demand(access.DEPLOY)
    assert caught.value.next
