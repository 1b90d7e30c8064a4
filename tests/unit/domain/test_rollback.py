"""What a rollback goes back to: the chain of what was good, never the calendar."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import rollback
from manent_server.domain.rollback import Good, TargetPast


class History:
    """Deploys that succeeded, one after the other; `live` is the last."""

    def __init__(self) -> None:
        self.rows: dict[str, Good] = {}
        self.live: Good | None = None

    def deploy(self, version: str, *, rollback_to: str | None = None) -> Good:
        before = self.live.id if self.live else None
        row = Good(f"d{len(self.rows)}", version, before, rollback_to)
        self.rows[row.id] = self.live = row
        return row

    def roll_back(self, *, is_intact: bool = True) -> Good | None:
        target = self.target(is_intact=is_intact)
        if target is not None:
            self.deploy(target.version, rollback_to=target.id)
        return target

    def target(self, *, is_intact: bool = True) -> Good | None:
        assert self.live is not None
        return rollback.target(self.live, is_intact=is_intact, find=self.rows.get)


@pytest.fixture
def history() -> History:
    return History()


def test_a_rollback_goes_to_what_was_good_before(history: History):
    first = history.deploy("1")
    history.deploy("2")
    assert history.target() == first


def test_the_first_deploy_has_nothing_before_it(history: History):
    history.deploy("1")
    assert history.target() is None


def test_a_second_rollback_does_not_go_forward_again(history: History):
    first = history.deploy("1")
    second = history.deploy("2")
    history.deploy("3")
    assert history.roll_back() == second
    assert history.roll_back() == first
    assert history.roll_back() is None


def test_a_version_that_was_rolled_back_from_is_never_a_target(history: History):
    first = history.deploy("1")
    history.deploy("2")
    history.roll_back()
    third = history.deploy("3")
    assert third.replaces != first.id  # the rollback stands between
    assert history.target() == first


def test_a_redeploy_is_not_what_was_before(history: History):
    first = history.deploy("1")
    history.deploy("2")
    history.deploy("2")
    assert history.target() == first


def test_a_half_done_deploy_after_it_makes_the_last_good_one_the_target(history: History):
    history.deploy("1")
    live = history.deploy("2")
    assert history.target(is_intact=False) == live


def test_what_retention_removed_cannot_be_gone_back_to(history: History):
    first = history.deploy("1")
    history.deploy("2")
    history.deploy("3")
    del history.rows[history.live.replaces if history.live else ""]
    assert history.target() is None
    assert first.id in history.rows


def test_a_rollback_whose_origin_is_gone_has_no_known_past(history: History):
    first = history.deploy("1")
    history.deploy("2")
    history.roll_back()
    del history.rows[first.id]
    assert history.target() is None


def test_a_rollback_before_stands_for_its_lost_origin(history: History):
    first = history.deploy("1")
    history.deploy("2")
    history.roll_back()
    back = history.live
    history.deploy("3")
    del history.rows[first.id]
    assert history.target() == back


def test_rows_that_point_at_each_other_end_the_search():
    rows = {
        "a": Good("a", "1", "b", None),
        "b": Good("b", "1", "a", None),
        "c": Good("c", "1", "d", "d"),
        "d": Good("d", "1", "c", "c"),
    }
    for live in rows.values():
        assert rollback.target(live, is_intact=True, find=rows.get) is None


@given(st.lists(st.sampled_from(["1", "2", "3", "back", "back"]), min_size=1, max_size=14))
def test_going_back_follows_the_chain_down(events: list[str]):
    """Whatever happened: a rollback gives the version under the live one, then that is live."""
    history, stack = History(), list[str]()
    for event in events:
        if event != "back":
            history.deploy(event)
            if stack[-1:] != [event]:
                stack.append(event)
        elif stack:
            found = history.roll_back()
            if len(stack) == 1:
                assert found is None
            else:
                stack.pop()
                assert found is not None
                assert found.version == stack[-1]
                assert found.rollback_to is None


def test_only_targets_with_a_past_can_be_brought_back():
    past = {"a": TargetPast("d1", "1", None), "z": TargetPast("d1", "1", None)}
    assert rollback.reachable(("b", "a"), past) == ("a",)
