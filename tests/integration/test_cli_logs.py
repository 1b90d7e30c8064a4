"""`manent logs`: every line once, in order, through cuts and restarts."""

import json
import time
from dataclasses import replace

import pytest

from tests.rig.fake_api import FakeApi, Script, ends
from tests.rig.fake_http import Refusal, problem
from tests.rig.manent import Manent

LOGS = "/deploys/0197-deploy-0001/logs"


@pytest.fixture
def api():
    with FakeApi() as api:
        yield api


@pytest.fixture
def manent(tmp_path, api):
    return Manent(tmp_path, api)


def test_logs_prints_the_lines_as_they_are(api, manent):
    lines = [(0.0, "deploy:web-1", "plain"), (0.0, "deploy:web-1", "\x1b[31mred\x1b[0m\x07")]
    api.add(replace(ends("SUCCESS", "deployed"), lines=lines))
    assert manent("logs", "0197-d").out == "plain\n\x1b[31mred\x1b[0m\x07\n"
    assert manent("logs", "0197-d", is_terminal=True).out == (
        "plain\n\x1b[31mred\x1b[0m\\x07\x1b[0m\n"
    )
    first = manent("logs", "0197-d", "--timestamps").out.splitlines()[0]
    assert first == "2027-01-31T18:00:00Z deploy:web-1 plain"
    assert [item["sequence"] for item in manent("logs", "0197-d", "-o", "json").json["items"]] == [
        1, 2,
    ]  # fmt: skip
    assert json.loads(manent("logs", "0197-d", "--after", "1", "-o", "jsonl").out)["sequence"] == 2


def test_a_long_log_is_asked_for_a_page_at_a_time(api, manent):
    """B103: whole log in one go."""
    lines = [(0.0, "deploy:web-1", str(number)) for number in range(13000)]
    api.add(replace(ends("SUCCESS", "deployed"), lines=lines))
    assert manent("logs", "0197-d").out.split() == [str(number) for number in range(13000)]
    afters = [one.query["after"] for one in api.requests("GET", LOGS)]
    assert afters == [["0"], ["5000"], ["10000"]]


@pytest.mark.parametrize("cuts", [[], [0], [3], [1, 0, 0, 5, 2]])
def test_a_followed_log_has_no_hole_and_nothing_twice(api, manent, cuts):
    """B103, I11: `logs -f` resumes after the last line it has seen."""
    lines = [(number * 0.01, "deploy:web-1", str(number)) for number in range(30)]
    api.add(replace(ends("SUCCESS", "deployed", after=0.4), lines=lines))
    api.cut_after = list(cuts)
    said = manent("logs", "-f", "0197-d")
    assert said.code == 0
    assert said.out.split() == [str(number) for number in range(30)]
    streams = [one for one in api.seen if "event-stream" in one.headers["accept"]]
    assert len(streams) == len(cuts) + 1
    assert "last-event-id" not in streams[0].headers


def test_a_followed_log_survives_a_restart_of_the_server(api, manent):
    lines = [(number * 0.05, "deploy:web-1", str(number)) for number in range(20)]
    api.add(replace(ends("SUCCESS", "deployed", after=1.2), lines=lines))
    process = manent.start("logs", "-f", "0197-d", "-o", "jsonl")
    time.sleep(0.5)
    api.down()
    time.sleep(0.5)
    api.up()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert [json.loads(line)["sequence"] for line in out.splitlines()] == list(range(1, 21))
    assert "Traceback" not in err


def test_a_followed_log_that_is_refused_says_so(api, manent):
    assert manent("logs", "-f", "nothing").code == 6
    api.add(Script())
    assert manent("logs", "-f", "0197-d", "-o", "json").code == 2
    api.refusals.append(Refusal("GET", "/deploys", 200, "<html>sign in</html>"))
    assert manent("logs", "-f", "0197-d").code == 1


def test_a_problem_inside_a_stream_ends_it_with_its_code(api, manent):
    data = json.dumps(problem(403, "not_allowed"))
    stream = f"event: problem\ndata: {data}\n\n"
    kind = {"Content-Type": "text/event-stream"}
    api.add(Script())
    api.refusals.append(Refusal("GET", LOGS, 200, stream, headers=kind))
    assert manent("logs", "-f", "0197-d").code == 4


def test_a_reader_that_goes_away_is_no_failure(api, manent):
    lines = [(0.0, "deploy:web-1", "x" * 1000) for _ in range(2000)]
    api.add(replace(ends("SUCCESS", "deployed"), lines=lines))
    process = manent.start("logs", "0197-d")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


def test_the_end_of_a_long_log_is_jumped_to(api, manent):
    """B103: jump to end."""
    lines = [(0.0, "deploy:web-1", str(number)) for number in range(1300)]
    api.add(replace(ends("SUCCESS", "deployed"), lines=lines))
    assert manent("logs", "0197-d", "--tail", "3").out.split() == ["1297", "1298", "1299"]
    assert manent("logs", "-f", "0197-d", "--tail", "2").out.split() == ["1298", "1299"]
    assert manent("logs", "0197-d", "--tail", "0").out == ""
    assert [one.query["after"] for one in api.requests("GET", LOGS) if "tail" in one.query]
    assert manent("logs", "0197-d", "--tail", "5000").out.split()[0] == "0"
