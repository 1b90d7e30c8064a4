import pytest

from manent_server.domain.effects import Last, Move, next_move


def last(hook: str = "deploy", result: str | None = "interrupted", **more: object) -> Last:
    values = {"outputs": None, "resolved": None} | more
    return Last(hook, result, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "move"),
    [
        (None, Move.RUN),
        (last(), Move.OBSERVE),
        (last(result=None), Move.OBSERVE),
        (last(result="timed_out"), Move.OBSERVE),
        (last(result="failed"), Move.RUN),
        (last(resolved="retry"), Move.RUN),
        (last("observe"), Move.OBSERVE),
        (last("observe", None), Move.OBSERVE),
        (last("observe", "failed"), Move.ASK),
        (last("observe", "timed_out"), Move.ASK),
        (last("observe", "succeeded"), Move.ASK),
        (last("observe", "succeeded", outputs={"in_place": None}), Move.ASK),
        (last("observe", "succeeded", outputs={"in_place": "yes"}), Move.ASK),
        (last("observe", "succeeded", outputs={"in_place": False}), Move.RUN),
        (last("observe", "succeeded", outputs={"in_place": None}, resolved="retry"), Move.RUN),
    ],
)
def test_what_was_cut_short_is_not_run_again_unasked(before: Last | None, move: Move):
    assert next_move(before, can_observe=True) == move


def test_what_cannot_be_observed_is_asked_about():
    assert next_move(last(), can_observe=False) == Move.ASK
