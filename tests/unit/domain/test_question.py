import json
from datetime import UTC, datetime, timedelta

from manent_server.domain import question as questions
from manent_server.domain.question import OFFERED, Answer, Question, Reply, Topic

AT = datetime(2027, 1, 31, 18, tzinfo=UTC)
ASKED = Question(Topic.UNKNOWN, 2, ("deploy:a", "deploy:b"), "cut short", AT)


def reply(answer: Answer, *, minutes: int = 1) -> Reply:
    return Reply("r", answer, "ann", AT + timedelta(minutes=minutes), None)


def test_it_is_open_until_every_step_is_answered_for():
    one = ASKED.answered(("deploy:b",), reply(Answer.RETRY))
    assert (one.is_open, one.open_steps) == (True, ("deploy:a",))
    both = one.answered(("deploy:a",), reply(Answer.FAILED, minutes=2))
    assert not both.is_open
    assert both.last is not None
    assert both.last.answer == Answer.FAILED
    assert ASKED.last is None


def test_it_survives_as_json():
    answered = ASKED.answered(("deploy:a",), reply(Answer.SUCCEEDED))
    assert questions.load(json.loads(json.dumps(questions.dump(answered)))) == answered


def test_every_topic_offers_a_way_on_and_a_way_out():
    for answers in OFFERED.values():
        assert {Answer.RETRY, Answer.FAILED} <= set(answers)
