"""Roles carry rights, grants carry a scope, and deny wins; a caller without one is told so."""

from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manent_server.domain import access
from manent_server.domain.access import Area, Caller, Grant, Scope, everywhere
from manent_server.domain.errors import NotAllowed

SHOP = Grant("deployer", ("shop*",), ("staging", "dev-?"))


def test_an_administrator_may_do_everything():
    everything = set().union(*access.ROLES.values())
    ann = Caller("ann", everywhere("admin"))
    assert {right for right in everything if ann.may(right)} == everything


def test_a_viewer_may_only_read():
    viewer = Caller("vic", everywhere("viewer"))
    viewer.demand(access.READ)
    with pytest.raises(NotAllowed, match=r"vic may not deploy everywhere") as caught:
        viewer.demand(access.DEPLOY)
    assert "the role deployer" in caught.value.next


@pytest.mark.parametrize("role", access.ROLES)
def test_whoever_may_do_anything_may_read(role: str):
    assert access.READ in access.ROLES[role]


def test_nobody_but_an_approver_approves_and_nobody_but_an_administrator_lets_in():
    able = {
        right: {role for role, rights in access.ROLES.items() if right in rights}
        for right in (access.APPROVE, access.BYPASS, access.GRANT, access.ADMINISTER)
    }
    assert able == {
        access.APPROVE: {"approver", "admin"},
        access.BYPASS: {"admin"},
        access.GRANT: {"admin"},
        access.ADMINISTER: {"operator", "admin"},
    }


@pytest.mark.parametrize(
    ("application", "environment", "may"),
    [
        ("shop", "staging", True),
        ("shop-web", "dev-1", True),
        ("shop", "dev-11", False),
        ("billing", "staging", False),
        ("shop", "production", False),
        ("shop", None, False),
        (None, "staging", False),
        (None, None, False),
    ],
)
def test_a_grant_holds_in_its_area_alone(
    application: str | None, environment: str | None, *, may: bool
):
    dev = Caller("dev", (SHOP,))
    assert dev.may(access.DEPLOY, application, environment) is may
    assert dev.may_somewhere(access.DEPLOY)
    assert not dev.may_somewhere(access.LOCK)


def test_a_pattern_of_all_covers_what_is_about_all():
    dev = Caller("dev", (Grant("operator", environments=("staging",)),))
    assert dev.may(access.LOCK, None, "staging")
    assert not dev.may(access.LOCK, "shop", None)


def test_deny_wins_and_leaves_nothing_where_reading_is_denied():
    grants = (Grant("admin"), Grant("viewer", ("pay*",), ("production",), deny=True))
    ann = Caller("ann", grants)
    assert ann.may(access.DEPLOY, "pay", "staging")
    assert ann.may(access.DEPLOY, "shop", "production")
    for right in access.ROLES["admin"]:
        assert not ann.may(right, "pay", "production")
        assert not ann.may(right, None, "production"), "some of it is denied"
        assert not ann.may(right)


def test_deny_of_a_role_leaves_the_other_rights():
    ann = Caller("ann", (Grant("admin"), Grant("approver", ("pay",), deny=True)))
    assert not ann.may(access.APPROVE, "pay", "staging")
    assert ann.may(access.BYPASS, "pay", "staging")
    assert ann.sees("pay", "staging")
    assert ann.may(access.APPROVE, "shop", "staging")


@pytest.mark.parametrize(
    ("application", "environment", "sees"),
    [
        ("shop", "staging", True),
        (None, "staging", True),
        ("shop", None, True),
        (None, None, True),
        (None, "production", False),
        ("billing", None, False),
    ],
)
def test_one_sees_what_touches_what_one_sees(
    application: str | None, environment: str | None, *, sees: bool
):
    assert Caller("dev", (SHOP,)).sees(application, environment) is sees


def test_nobody_sees_into_what_is_denied_as_a_whole():
    grants = (Grant("viewer"), Grant("viewer", environments=("production",), deny=True))
    assert not Caller("vic", grants).sees(None, "production")
    assert Caller("vic", grants).sees(None, None)


def test_grants_add_up_and_everywhere_is_known_as_such():
    both = Caller("dev", (SHOP, Grant("viewer")))
    assert both.scope(access.READ).is_everywhere
    assert not both.scope(access.DEPLOY).is_everywhere
    assert Scope(()).is_nowhere
    shut = (Grant("admin"), Grant("viewer", deny=True))
    assert not Caller("ann", shut).may_somewhere(access.READ)


def test_a_person_is_itself_until_somebody_maps_it_and_a_program_is_nobody():
    assert Caller("ann", (), "person").login == "ann"
    assert Caller("ann", (), "person", login="anna").login == "anna"
    assert Caller("ci", ()).login is None


def test_automation_deploys_its_application_and_passes_nothing():
    for caller in (access.schedule("nightly", "shop"), access.promotion("shop")):
        assert caller.may(access.DEPLOY, "shop", "production")
        assert not caller.may(access.DEPLOY, "billing", "production")
        assert not caller.may(access.OVERRIDE, "shop", "production")
        assert caller.channel == "automation"
        assert caller.login is None
    assert access.schedule("nightly", "shop").name == "schedule:nightly"
    assert access.local("ann", "host").may(access.GRANT)


def test_patterns_are_names_with_stars():
    assert access.patterns(["shop*, billing", "web-?"]) == ("shop*", "billing", "web-?")
    assert access.patterns([]) == ("*",)
    for text in ("", "Shop", "[a]", "a/b", "-x", "a,,b"):
        with pytest.raises(ValueError, match="no pattern"):
            access.patterns([text])


def test_a_refusal_names_the_place():
    dev = Caller("dev", (SHOP,))
    with pytest.raises(NotAllowed, match="dev may not deploy shop in production"):
        dev.demand(access.DEPLOY, "shop", "production")
    with pytest.raises(NotAllowed, match="dev may not lock all of staging") as caught:
        dev.demand(access.LOCK, None, "staging")
    assert "the role operator there" in caught.value.next
    with pytest.raises(NotAllowed, match="dev may not administer"):
        dev.demand_somewhere(access.ADMINISTER)
    with pytest.raises(NotAllowed, match="dev may not fly"):
        dev.demand("fly")


@pytest.mark.parametrize(
    ("role", "applications", "environments", "may"),
    [
        ("approver", ("*",), ("production",), False),
        ("approver", ("shop",), ("prod*",), False),
        ("approver", ("shop",), ("p?oduction",), False),
        ("approver", ("shop",), ("*-eu", "*tion"), False),
        ("admin", ("*",), ("*",), False),
        ("approver", ("*",), ("staging", "prod-*"), True),
        ("deployer", ("*",), ("*",), True),
    ],
)
def test_nobody_gives_what_is_denied_to_themselves(
    role: str, applications: tuple[str, ...], environments: tuple[str, ...], *, may: bool
):
    denied = Grant("approver", environments=("production",), deny=True)
    ops = Caller("ops", (*everywhere("admin"), denied))
    made = Grant(role, applications, environments)
    Caller("root", everywhere("admin")).demand_givable(made)
    if may:
        ops.demand_givable(made)
    else:
        with pytest.raises(NotAllowed, match="denied"):
            ops.demand_givable(made)


@given(st.text("ab*?", min_size=1, max_size=5), st.text("ab*?", min_size=1, max_size=5))
@example("abab*", "*baab")
def test_patterns_meet_where_a_name_fits_both(one: str, other: str):
    # As long as all that both spell out, one after the other.
    names = ["".join(name) for size in range(9) for name in product("ab", repeat=size)]
    fits = [name for name in names if fnmatchcase(name, one) and fnmatchcase(name, other)]
    assert Area((one,)).meets(Area((other,))) is bool(fits)
