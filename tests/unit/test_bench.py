"""The arithmetic of the bench."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import history, report
from bench.ratios import Goal, Pair, Verdict, interleave, percentile, spread, steady

numbers = st.floats(min_value=0.001, max_value=1e6)


@pytest.mark.parametrize(("share", "found"), [(0.5, 3), (0.99, 5), (0.0, 1), (0.2, 1), (0.21, 2)])
def test_a_percentile_is_one_of_the_values(share, found):
    assert percentile([5, 3, 1, 4, 2], share) == found


@given(st.lists(numbers, min_size=1, max_size=20))
def test_a_spread_holds_its_median_and_stays_within_the_values(values):
    found = spread(values)
    assert min(values) <= found.low <= found.middle <= found.high <= max(values)


def test_the_same_values_have_the_same_spread():
    assert spread([3.0, 1.0, 2.0, 7.5]) == spread([3.0, 1.0, 2.0, 7.5])


def test_a_spread_narrows_with_more_of_the_same():
    few, many = spread([1.0, 2.0, 3.0]), spread([1.0, 2.0, 3.0] * 30)
    assert many.high - many.low < few.high - few.low


@pytest.mark.parametrize(
    ("goal", "values", "verdict"),
    [
        (Goal(3.0), [2.0, 2.1, 2.2], Verdict.MET),
        (Goal(3.0), [2.0, 2.5, 3.5], Verdict.MISSED),
        (Goal(3.0), [4.0, 5.0, 6.0], Verdict.MISSED),
        (Goal(3.0), [6.1, 6.2, 6.3], Verdict.FAR),
        (Goal(0.5, is_floor=True), [0.6, 0.7], Verdict.MET),
        (Goal(0.5, is_floor=True), [0.4, 0.9], Verdict.MISSED),
        (Goal(0.5, is_floor=True), [0.2, 0.24], Verdict.FAR),
        (Goal(0.5, is_floor=True), [0.0, 0.0], Verdict.FAR),
    ],
)
def test_a_goal_is_met_by_the_worse_end_only(goal, values, verdict):
    assert goal.verdict(spread(values)) is verdict


def test_a_ratio_is_that_of_a_pair_and_not_of_the_medians():
    pairs = [Pair(10, 5), Pair(40, 10), Pair(30, 30)]
    assert report.ratio("it", "ms", pairs, None).spread.middle == 2


def test_pairs_on_a_machine_that_changed_in_between_are_left_out():
    pairs = [Pair(1, 1), Pair(9, 1, 0.31), Pair(2, 1, -0.3), Pair(9, 1, -0.31), Pair(3, 1, 0.3)]
    assert [pair.ours for pair in steady(pairs)] == [1, 2, 3]
    assert report.ratio("it", "ms", pairs, None).dropped == 2


def test_all_pairs_stay_when_too_few_would():
    pairs = [Pair(1, 1), Pair(2, 1, 0.5), Pair(3, 1, 0.5)]
    assert steady(pairs) == pairs


def test_sides_take_turns_and_change_who_is_first():
    called = []

    def side(name):
        return lambda: called.append(name) or float(len(called))

    assert interleave(3, side("a"), side("b")) == [(1, 2), (4, 3), (5, 6)]
    assert "".join(called) == "abbaab"


def test_the_table_names_every_figure_with_its_goal_and_verdict():
    pairs = [Pair(20, 10), Pair(21, 10), Pair(22, 10)]
    figures = [
        report.ratio("overhead", "ms", pairs, Goal(3.0)),
        report.ratio("throughput", "/s", pairs, Goal(4.5, is_floor=True)),
        report.alone("memory", "MB", [[90.0], [60.0]], Goal(150.0)),
        report.alone("restart", "s", [[6.0]], None),
    ]
    _, _, *rows = report.table(figures).splitlines()
    assert [" ".join(row.split()) for row in rows] == [
        "overhead 21 ms 10 ms 2.1x 2 to 2.2 <= 3x met",
        "throughput 21 /s 10 /s 2.1x 2 to 2.2 >= 4.5x missed by more than two",
        "memory 90 MB 60 MB 90 MB 90 to 90 <= 150 MB met",
        "restart 6 s 6 s 6 to 6 no goal",
    ]


def test_a_figure_is_whole_in_json():
    figure = report.ratio("it", "ms", [Pair(2, 1)], Goal(3.0), p99=[4.0, 2.0])
    assert json.loads(json.dumps(figure.as_json())) == {
        "name": "it", "unit": "ms", "is_ratio": True, "median": 2, "interval": [2, 2],
        "goal": {"bound": 3.0, "is_floor": False}, "verdict": "met", "values": [2], "ours": [2],
        "base": [1], "dropped": 0, "detail": {"p99": [4.0, 2.0]},
    }  # fmt: skip


def marks(*lines):
    return [history.parse(line) for line in lines]


def line(at, deploy, place="p", event="begin", step="deploy:a"):
    return f"{at} run={deploy}/1 place={place} step={step} attempt=1 event={event}"


def test_runs_that_follow_each_other_do_not_overlap():
    found = marks(
        line(1, "d1"), line(2, "d1", event="end"), line(2.5, "d2"), line(3, "d2", event="end")
    )
    assert history.overlaps(found) == []


def test_runs_in_one_place_at_one_time_are_found():
    found = marks(
        line(1, "d1"), line(2, "d2"), line(3, "d1", event="end"), line(4, "d2", event="end")
    )
    assert [(one.run, other.run) for one, other in history.overlaps(found)] == [("d1/1", "d2/1")]


def test_runs_in_two_places_may_meet():
    found = marks(
        line(1, "d1"), line(2, "d2", "q"), line(3, "d1", event="end"), line(4, "d2", "q", "end")
    )
    assert history.overlaps(found) == []


def test_a_step_that_ended_twice_is_found():
    ends = marks(
        line(1, "d1", event="end"), line(2, "d1", event="end", step="verify:a"),
        line(3, "d1", event="end"), line(4, "d2", event="end"), line(5, "d2"),
    )  # fmt: skip
    assert history.repeated(ends) == [("d1", "deploy:a")]


def test_the_first_begin_counts():
    found = marks(line(2, "d1", event="end"), line(3, "d1"), line(1, "d1"), line(4, "d2"))
    assert history.first_begins(found) == {"d1": 1, "d2": 4}


def test_a_line_still_being_written_is_not_read(tmp_path):
    path = tmp_path / "marks"
    assert history.read(path) == []
    path.write_text(line(1, "d1") + "\n" + "2 run=d")
    assert [mark.at for mark in history.read(path)] == [1]
