"""Waiting for a deploy while the way to the server, or the patience, ends."""

import json
import signal
import threading
import time
from dataclasses import replace

import pytest

from tests.rig.fake_api import FakeApi, Script, ends
from tests.rig.fake_http import Refusal, problem
from tests.rig.manent import FAST, Manent
from tests.rig.process import until

SHOP = ("deploy", "shop", "production", "1.0")
ENDLESS = Script(
    changes=[(0.0, {"state": "PENDING", "phase": "deploying"})],
    steps=[(0.0, {"step": "deploy:web-1", "state": "running", "attempts": 1})],
    lines=[(0.0, "deploy:web-1", "copying")],
)
QUEUED = Script(changes=[(0.0, {"state": "ENQUEUED", "phase": "queued", "position": 2})])


@pytest.fixture
def api():
    with FakeApi() as api:
        yield api


@pytest.fixture
def manent(tmp_path, api):
    return Manent(tmp_path, api)


def later(seconds, call):
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer


def until_asked(api, path, *, limit=60.0):
    end = time.monotonic() + limit
    while not api.requests("GET", path):
        assert time.monotonic() < end, f"nobody asked for {path}"
        time.sleep(0.02)


def once_asked(api, *calls):
    """Do this as soon as the deploy has been looked at."""

    def work():
        until_asked(api, "/deploys/0197-deploy-0001")
        for call in calls:
            call()

    threading.Thread(target=work, daemon=True).start()


def test_at_the_limit_the_code_is_its_own_and_the_deploy_goes_on(api, manent):
    """B151: at 5 s its own exit code and 'still running, id X'."""
    api.script = ENDLESS
    began = time.monotonic()
    said = manent.process(*SHOP, "--timeout", "1s")
    assert said.code == 7
    assert 0.9 < time.monotonic() - began < 15
    assert said.out == "0197-deploy-0001\n"
    assert "still running, id 0197-deploy-0001" in said.err
    assert api.requests("POST", "/deploys/") == []


def test_at_the_limit_json_holds_the_deploy_as_last_seen(api, manent):
    api.script = ENDLESS
    said = manent(*SHOP, "--timeout", "100ms", "-o", "json")
    assert said.json["state"] == "PENDING"
    assert said.error["code"] == "time_over"
    assert said.error["exit_code"] == 7


def test_the_limit_holds_against_a_server_that_never_answers(api, manent):
    api.script = ENDLESS
    api.refusals.append(Refusal("GET", "/deploys", None, delay=5.0, times=-1))
    began = time.monotonic()
    assert manent(*SHOP, "--timeout", "500ms").code == 7
    assert time.monotonic() - began < 4.5


def test_the_limit_holds_while_the_server_is_away(api, manent):
    """B151: waits longer than the CI job, no diagnosis."""
    api.script = ENDLESS
    once_asked(api, api.down)
    said = manent(*SHOP, "--timeout", "800ms")
    assert said.code == 7
    assert "Connection refused" in said.err


def test_a_restart_of_the_server_is_waited_out(api, manent):
    """B151: server restarted for some time during the wait; ends with the true code."""
    api.script = ends("ERROR", "rolled_back", after=1.0)
    once_asked(api, api.down, lambda: later(1.2, api.up))
    said = manent(*SHOP)
    assert said.code == 3
    # Once for the outage; once more where the first answer after it was cut off.
    assert said.err.count("trying again") in (1, 2)
    assert said.err.count("log deploy:web-1 | copying") == 1
    assert said.err.count("log deploy:web-1 | done") == 1


@pytest.mark.parametrize("status", [None, 502, 503, 504, 429, 500])
def test_a_passing_fault_on_the_way_is_waited_out(api, manent, status):
    """B151: proxy cut during the wait; reconnects and ends with the true code."""
    api.script = ends("SUCCESS", "deployed", after=0.2)
    api.refusals.append(Refusal("GET", "/deploys/", status, "<html>bad gateway</html>", times=4))
    assert manent(*SHOP).code == 0


def test_a_server_that_only_fails_is_given_up_in_the_end(api, manent):
    api.script = ENDLESS
    api.refusals.append(Refusal("GET", "/deploys/", 500, problem(500, "internal"), times=-1))
    assert manent(*SHOP).code == 1


def test_losing_the_right_to_look_ends_the_wait_with_its_code(api, manent):
    api.script = ENDLESS
    api.refusals.append(Refusal("GET", "/deploys/", 401, problem(401, "not_signed_in"), times=-1))
    assert manent(*SHOP).code == 4


def test_trouble_with_steps_or_log_does_not_decide_about_the_wait(api, manent):
    api.script = ends("SUCCESS", "deployed", after=0.1)
    path = "/deploys/0197-deploy-0001/"
    api.refusals.append(Refusal("GET", path, 500, "broken", times=-1))
    assert manent(*SHOP).code == 0


@pytest.mark.parametrize("does_it", [True, False])
@pytest.mark.parametrize("status", [None, 502, 503])
def test_a_lost_answer_is_asked_for_again_with_the_same_key(api, manent, status, does_it):
    """B120 seen from the client: its own retries never make a second deploy."""
    refusal = Refusal("POST", "/deploys", status, "bad gateway", times=2, does_it=does_it)
    api.refusals.append(refusal)
    said = manent(*SHOP)
    assert (said.code, said.out) == (0, "0197-deploy-0001\n")
    keys = [post.headers["idempotency-key"] for post in api.requests("POST", "/deploys")]
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_two_runs_have_two_keys(api, manent):
    assert manent(*SHOP).out != manent(*SHOP).out


def test_a_server_that_comes_back_soon_gets_the_request(api, manent):
    api.down()
    later(0.3, api.up)
    assert manent(*SHOP).code == 0


def test_a_server_that_stays_away_is_told_with_the_key_to_use(api, manent):
    api.down()
    said = manent(*SHOP, "--key", "ci-7", pace=replace(FAST, post=0.3))
    assert (said.code, said.out) == (1, "")
    assert f"error: cannot reach {api.url}\n" in said.err
    assert "--key ci-7 never asks twice" in said.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", [SHOP, ("wait", "0197-deploy-0001")])
def test_an_interrupt_leaves_the_deploy_alone(api, manent, number, command):
    """B151: SIGINT at the client; the deploy is not cancelled by a lost client."""
    api.script = ENDLESS
    if command != SHOP:
        api.add()
    process = manent.start(*command)
    until_asked(api, "/deploys/0197-deploy-0001")
    time.sleep(0.2)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "0197-deploy-0001 goes on" in err
    assert "Traceback" not in err
    assert out == ("0197-deploy-0001\n" if command == SHOP else "")
    assert [one for one in api.seen if one.path.endswith("/cancel")] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_log_that_is_followed_ends_by_a_signal_like_by_ctrl_c(api, manent, number):
    api.script = ENDLESS
    api.add()
    process = manent.start("logs", "-f", "0197-deploy-0001")
    until_asked(api, "/deploys/0197-deploy-0001/logs")
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in err) == (130, False)


def test_an_interrupt_before_the_answer_says_how_to_find_out(api, manent):
    api.refusals.append(Refusal("POST", "/deploys", None, delay=5.0, times=-1))
    process = manent.start(*SHOP, "--key", "ci-7", "-o", "json")
    until(lambda: api.seen, what="the request")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "--key ci-7" in json.loads(err)["next"]


def test_silence_is_broken_every_heartbeat_with_what_it_waits_for(api, manent):
    api.script = ENDLESS
    said = manent(*SHOP, "--timeout", "700ms", pace=replace(FAST, heartbeat=0.15))
    beats = [line for line in said.err.splitlines() if "Z still " in line]
    assert 2 <= len(beats) <= 5
    assert "running: deploy:web-1" in beats[0]


def test_a_waiting_deploy_says_its_place_and_why(api, manent):
    api.script = QUEUED
    said = manent(*SHOP, "--timeout", "500ms", pace=replace(FAST, heartbeat=0.15))
    assert "Z ENQUEUED queued (2 in the queue)\n" in said.err
    assert "Z still waits for deploy 7\n" in said.err
    assert "  why: waits for deploy 7\n" in said.err


def test_every_line_where_lines_stay_begins_with_the_time(api, manent):
    api.script = ends("SUCCESS", "deployed", after=0.1)
    lines = manent(*SHOP).err.splitlines()[1:]
    assert all(line[4] == "-" and line[10] == "T" and line[19:21] == "Z " for line in lines)


def test_a_line_of_the_log_cannot_speak_for_the_ci_system(api, manent):
    line = "::add-mask::x\r::set-output name=a::b\x1b[2J"
    api.script = replace(ends("SUCCESS", "deployed"), lines=[(0.0, "deploy:web-1", line)])
    said = manent(*SHOP)
    assert "log deploy:web-1 | ::add-mask::x\\r::set-output name=a::b\\x1b[2J\n" in said.err


def test_a_terminal_sees_steps_and_the_log_of_a_failed_one(api, manent):
    api.script = ends("ERROR", "failed", after=0.15)
    said = manent(*SHOP, is_terminal=True)
    assert "\r\x1b[K" in said.err
    assert "running: deploy:web-1" in said.err
    assert "\x1b[31mdeploy:web-1 failed\x1b[0m\n" in said.err
    assert "    copying" in said.err
    quiet = manent(*SHOP, is_terminal=True, environ={"NO_COLOR": "1"})
    assert "\x1b[31m" not in quiet.err
    dumb = manent(*SHOP, is_terminal=True, environ={"TERM": "dumb"})
    assert "\x1b" not in dumb.err


def test_a_step_that_runs_again_is_told_again(api, manent):
    def step(state, attempts):
        return {"step": "deploy:web-1", "state": state, "attempts": attempts}

    api.script = replace(
        ends("SUCCESS", "deployed", after=0.5),
        steps=[
            (0.0, step("running", 1)),
            (0.1, {**step("waiting", 1), "error": {"message": "exit 3"}}),
            (0.3, step("running", 2)),
            (0.5, step("succeeded", 2)),
        ],
    )
    err = manent(*SHOP).err
    assert "step deploy:web-1 failed (attempt 1), will be tried again: exit 3\n" in err
    assert "step deploy:web-1 running\n" in err
    assert "step deploy:web-1 running, attempt 2\n" in err


def test_the_steps_of_a_pass_before_are_not_told_again(api, manent):
    def step(number, state):
        return {"step": "deploy:web-1", "state": state, "attempts": 1, "pass": number}

    steps = [(0.0, step(1, "skipped")), (0.0, step(2, "succeeded"))]
    api.script = replace(ends("SUCCESS", "deployed", after=0.2), steps=steps)
    said = manent(*SHOP)
    assert said.code == 0
    assert "skipped" not in said.err


def test_a_server_that_was_never_there_is_not_waited_for_without_end(api, manent):
    api.down()
    for command in (("wait", "0197-d"), ("logs", "-f", "0197-d")):
        said = manent(*command, pace=replace(FAST, post=0.3))
        assert said.code == 1
        # Each reason is said once: nobody listens, or (where that takes long) no answer in time.
        assert said.err.count("trying again") in (1, 2)


def test_an_answer_that_is_no_deploy_ends_the_wait(api, manent):
    for body in ([], {"id": "x"}, None, "<html>"):
        api.refusals.append(Refusal("GET", "/deploys/", 200, body))
        assert manent(*SHOP).code == 1


def test_a_log_that_repeats_itself_is_told_once(api, manent):
    item = {"sequence": 1, "step": "deploy:web-1", "text": "again"}
    api.fixed["deploys/0197-deploy-0001/logs"] = {"items": [item], "next": 0, "ended": False}
    said = manent(*SHOP)
    assert (said.code, said.err.count("again")) == (0, 1)


def test_wait_tells_states_and_ends_with_the_code(api, manent):
    api.add(ends("CANCELLED", "superseded", after=0.2))
    said = manent("wait", "0197-d")
    assert (said.code, said.out) == (11, "0197-deploy-0001\n")
    assert "copying" not in said.err
    assert manent("wait", "nothing").code == 6
    assert manent("wait", "0197-d", "--timeout", "5").code == 2


def test_watch_tells_the_whole_story_of_one_deploy(api, manent):
    api.add(ends("SUCCESS", "deployed", after=0.2))
    said = manent("watch", "shop/production#1", "-o", "json")
    assert (said.code, said.json["outcome"]) == (0, "deployed")
    assert "log deploy:web-1 | done" in said.err


def test_a_long_log_is_read_in_pages_and_whole(api, manent):
    lines = [(0.0, "deploy:web-1", f"line {number}") for number in range(81201)]
    api.script = replace(ends("SUCCESS", "deployed"), lines=lines)
    err = manent(*SHOP).err
    assert [line.partition("| ")[2] for line in err.splitlines() if " | " in line] == [
        f"line {number}" for number in range(81201)
    ]
    limits = {request.query["limit"][0] for request in api.requests("GET", "/deploys/0197")
              if "limit" in request.query}  # fmt: skip
    assert limits == {"5000"}
