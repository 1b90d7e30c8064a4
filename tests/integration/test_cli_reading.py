"""The commands that look, and the small ones that change a thing."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.rig.fake_api import FakeApi, Script, ends
from tests.rig.fake_http import Refusal, problem
from tests.rig.manent import PROGRAM, Manent


@pytest.fixture
def api():
    with FakeApi() as api:
        yield api


@pytest.fixture
def manent(tmp_path, api):
    return Manent(tmp_path, api)


# list, history, show, explain


def test_list_shows_the_newest_first(api, manent):
    for version in ("1.0", "1.1"):
        api.add(version=version)
    said = manent("list")
    head, first, second = said.out.splitlines()
    assert head.split()[:5] == ["ID", "#", "APPLICATION", "ENVIRONMENT", "VERSION"]
    assert "1.1" in first
    assert "1.0" in second
    assert said.err == ""


def test_list_passes_every_filter_on(api, manent):
    manent("list", "--state", "pending", "--state", "ENQUEUED", "--outcome", "failed",
           "--application", "shop", "--environment", "production", "--version", "1.10")  # fmt: skip
    [asked] = api.requests("GET", "/deploys")
    assert asked.query == {
        "state": ["pending", "ENQUEUED"], "outcome": ["failed"], "application": ["shop"],
        "environment": ["production"], "version": ["1.10"], "limit": ["50"],
    }  # fmt: skip


def test_a_list_in_every_form_holds_the_same_items(api, manent):
    api.add(version="1.10")
    api.add(version="012")
    page = manent("list", "-o", "json").json
    assert [item["version"] for item in page["items"]] == ["012", "1.10"]
    assert yaml.safe_load(manent("list", "-o", "yaml").out) == page
    lines = manent("list", "-o", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == page["items"]
    assert manent("list", "-o", "name").out == "deploy/0197-deploy-0002\ndeploy/0197-deploy-0001\n"
    assert "REQUESTED BY" in manent("list", "-o", "wide").out


def test_the_form_can_come_from_the_environment_and_the_flag_wins(api, manent):
    api.add()
    assert manent("list", environ={"MANENT_OUTPUT": "name"}).out == "deploy/0197-deploy-0001\n"
    said = manent("list", "-o", "jsonl", environ={"MANENT_OUTPUT": "name"})
    assert json.loads(said.out)["number"] == 1


def test_a_long_list_is_read_page_by_page_and_says_how_to_go_on(api, manent):
    for _ in range(230):
        api.add()
    said = manent("list", "--limit", "220", "-o", "name")
    assert len(said.out.splitlines()) == 220
    assert [one.query["limit"] for one in api.requests("GET", "/deploys")] == [
        ["100"], ["100"], ["20"],
    ]  # fmt: skip
    assert "--before 220" in said.err
    rest = manent("list", "--before", "220", "-o", "name")
    assert len(rest.out.splitlines()) == 10
    assert rest.err == ""
    assert manent("list", "--limit", "0").code == 2


def test_history_is_a_list_of_one_place(api, manent):
    api.add()
    assert "0197-deploy-0001" in manent("history", "shop", "production").out
    query = api.requests("GET", "/deploys")[0].query
    assert (query["application"], query["environment"]) == (["shop"], ["production"])


def test_show_tells_a_deploy_with_its_steps(api, manent):
    error = {"code": "hook_failed", "step": "deploy:web-1", "message": "exit 3"}
    api.add(
        ends("ERROR", "rolled_back", error=error),
        rollback_to={"deploy": "0197-a", "version": "0.9"},
        cancel={"by": "ops", "requested_at": "now", "reason": "stop"},
    )
    out = manent("show", "0197-deploy-0001").out
    for part in ("rolled_back", "deploy:web-1: exit 3", "0.9 of deploy 0197-a", "now by ops: stop"):
        assert part in out
    assert "deploy:web-1  failed" in out
    assert manent("show", "0197-deploy-0001", "-o", "json").json["error"] == error


@pytest.mark.parametrize(
    "address", ["0197-deploy-0001", "deploy/0197-deploy-0001", "shop/production#1", "0197-d"]
)
def test_a_deploy_has_several_addresses(api, manent, address):
    api.add()
    assert manent("show", address, "-o", "name").out == "deploy/0197-deploy-0001\n"


def test_an_application_called_deploy_keeps_its_address(api, manent):
    api.add(application="deploy")
    said = manent("show", "deploy/production#1", "-o", "json")
    assert said.json["application"] == "deploy"
    assert api.seen[-1].path == "/deploys/deploy%2Fproduction%231"


@pytest.mark.parametrize(
    "address", ["a%2Fb", "a/../b", "x?state=y", "é", "a b", "#", "🚀", "\u202eabc"]
)
def test_a_name_of_any_kind_arrives_as_itself(api, manent, address):
    """B112: slashes and dots in names."""
    said = manent("show", address, "-o", "json")
    assert said.code == 6
    [asked] = api.seen
    assert asked.query == {}
    assert asked.path.count("/") == 2


@pytest.mark.parametrize("address", ["", ".", ".."])
def test_a_name_that_would_be_another_path_is_not_sent(api, manent, address):
    """B112: never another object's data."""
    for command in ("show", "logs", "wait", "cancel", "explain", "status"):
        assert manent(command, address).code == 2
    assert api.seen == []


def test_a_name_that_is_no_text_is_refused(api, manent):
    assert manent("show", "\udcff").code == 2
    assert manent("deploy", "shop", "production", "\udcff").code == 2
    assert api.seen == []


def test_explain_says_what_a_deploy_waits_for(api, manent):
    api.add(Script())
    out = manent("explain", "0197-deploy-0001").out
    assert "waits for deploy 7" in out
    assert "7, on w1, which is not alive" in out
    assert manent("explain", "0197-deploy-0001", "-o", "json").json["position"] == 2


def test_explain_lists_closed_gates(api, manent):
    gates = [{"gate": "lock", "detail": "locked by ops", "command": "manent unlock production"}]
    api.fixed["deploys/x/explain"] = {"id": "x", "state": "DELAYED", "gates": gates}
    assert "manent unlock production" in manent("explain", "x").out


# inventory and status


def test_inventory_shows_what_is_where(api, manent):
    row = {"application": "shop", "environment": "production", "target": "web-1",
           "version": "1.10", "state": "known", "since": "now", "deploy": "0197"}  # fmt: skip
    api.fixed["inventory"] = {"items": [row], "next": None}
    assert "web-1" in manent("inventory").out
    assert manent("inventory", "shop", "production", "-o", "name").out == "shop/production/web-1\n"
    assert api.seen[-1].query == {"application": ["shop"], "environment": ["production"]}


def test_status_shows_all_environments_or_one(api, manent):
    place = {
        "name": "production", "tier": "production", "concurrency": 1,
        "slots": [{"application": "shop", "version": "1.10", "deploy": "0197-a",
                   "steps": ["deploy:web-1"], "worker": "w0", "since": "now"}],
        "queue": [{"id": "0197-b", "application": "shop", "version": "1.11", "position": 1}],
        "gates": [{"gate": "lock", "opened_by": "ops", "detail": "locked by ops: audit"}],
        "planned": [{"id": "frz-1", "starts_at": "2027-12-24T00:00:00Z", "reason": "xmas"}],
        "last": {"application": "shop", "version": "1.9", "outcome": "deployed"},
        "workers": [{"id": "w0", "alive": True}, {"id": "w1", "alive": False}],
    }  # fmt: skip
    api.fixed |= {
        "environments": {"items": [{"name": "production"}, {"name": "staging"}], "next": None},
        "environments/production": place,
        "environments/staging": {"name": "staging", "tier": "staging", "slots": [], "last": None},
    }
    assert manent("status", "-o", "name").out == "env/production\nenv/staging\n"
    _, production, staging = manent("status").out.splitlines()
    assert production.split() == [
        "production", "production", "1", "1", "1", "1", "shop", "1.9", "deployed",
    ]  # fmt: skip
    assert staging.split() == ["staging", "staging", "-", "0", "0", "0", "-"]
    for name in ("production", "env/production"):
        out = manent("status", name).out
        for part in (
            "0197-a",
            "deploy:web-1",
            "0197-b",
            "audit",
            "frz-1",
            "workers      w0\n",
            "shop 1.9 deployed",
        ):
            assert part in out
    assert manent("status", "nowhere").code == 6


# cancel, lock, unlock


def test_cancel_prints_the_id_and_says_what_follows(api, manent):
    api.add(Script())
    said = manent("cancel", "0197-deploy-0001", "--rollback", "--reason", "wrong one")
    assert (said.code, said.out) == (0, "0197-deploy-0001\n")
    assert "has ended: cancelled" in said.err
    [post] = api.requests("POST", "/deploys")
    assert post.body == {"rollback": True, "reason": "wrong one"}
    assert post.headers["idempotency-key"]


def test_cancelling_what_has_ended_is_refused(api, manent):
    refusal = problem(409, "ended")
    api.refusals.append(Refusal("POST", "/deploys", 409, refusal))
    assert manent("cancel", "0197-deploy-0001").code == 5


def test_lock_and_unlock_name_the_same_place(api, manent):
    assert manent("lock", "production", "--reason", "audit").out == "lock-0\n"
    said = manent("lock", "production", "--application", "shop", "--reason", "x",
                  "--expires-at", "2027-01-31T18:00:00Z", "-o", "name")  # fmt: skip
    assert said.out == "lock/lock-1\n"
    assert api.locks[1] == {
        "id": "lock-1", "owner": "ci", "environment": "production", "application": "shop",
        "reason": "x", "expires_at": "2027-01-31T18:00:00Z",
    }  # fmt: skip
    assert manent("unlock", "production").out == "lock-0\n"
    assert [one["id"] for one in api.locks] == ["lock-1"]
    gone = manent("unlock", "production")
    assert gone.code == 6
    assert "no lock on production" in gone.err
    assert manent("unlock", "production", "--application", "shop", "-o", "json").code == 0
    assert api.locks == []
    api.refusals.append(Refusal("GET", "/marks", 404, problem(404, "not_found")))
    assert "a detail of not_found" in manent("unlock", "nope").err


def test_every_mark_is_listed_with_what_lifts_it(api, manent):
    veto = {"id": "v-1", "sort": "veto", "application": "shop", "version": "9", "environment": None,
            "owner": "ops", "reason": "loses carts", "command": "manent unveto shop 9"}  # fmt: skip
    api.fixed |= {"marks": {"items": [veto], "next": None}, "vetoes": {"items": [veto]}}
    said = manent("marks", "production", "--sort", "veto", "--application", "shop")
    assert "manent unveto shop 9" in said.out
    asked = api.requests("GET", "/marks")[0].query
    assert asked == {"environment": ["production"], "application": ["shop"], "sort": ["veto"]}
    assert manent("marks", "-o", "name").out == "veto/v-1\n"
    api.locks = [veto, {"id": "v-2"}]
    assert manent("unveto", "--id", "v-1").out == "v-1\n"
    assert manent("unveto", "shop").code == 2


def test_a_key_whose_lock_was_lifted_sets_none_and_says_so(api, manent):
    api.beside_a_lock = {"lifted_at": "2027-01-31T18:00:00Z"}
    said = manent("lock", "production", "--reason", "audit", "--key", "k")
    assert (said.code, said.out) == (1, "")
    assert "was lifted at 2027-01-31T18:00:00Z" in said.err


def test_of_several_freezes_the_one_that_is_meant_has_to_be_named(api, manent):
    place = {"environment": "production", "application": None, "owner": "ops"}
    now = {"id": "frz-now", "reason": "incident", **place}
    later = {"id": "frz-xmas", "reason": "xmas", "starts_at": "2027-12-24T00:00:00Z", **place}
    api.fixed["freezes"] = {"items": [now, later], "next": None}
    api.locks = [now, later]
    said = manent("unfreeze", "production")
    assert (said.code, said.out) == (2, "")
    for words in ("frz-now", "frz-xmas", "from 2027-12-24", "--id"):
        assert words in said.err
    assert api.requests("DELETE", "/freezes") == []
    assert manent("unfreeze", "production", "--id", "frz-now").out == "frz-now\n"
    assert api.locks == [later]
    assert manent("unfreeze", "--id", "frz-nope").code == 6
    assert manent("unfreeze", "staging", "--id", "frz-xmas").code == 6


@pytest.mark.parametrize("key", ["", " ", "a\nb", "k\u00e9", "k" * 256])
def test_what_is_no_key_is_wrong_usage_and_asks_for_nothing(api, manent, key):
    said = manent("lock", "production", "--reason", "audit", "--key", key)
    assert (said.code, said.out) == (2, "")
    assert "is no idempotency key" in said.err
    assert api.seen == []


def test_a_lock_wants_a_reason(api, manent):
    said = manent("lock", "production")
    assert said.code == 2
    assert "--reason" in said.err
    assert api.seen == []


# version, context, and the door


def test_version_shows_both_sides(api, manent):
    assert manent("version", "-o", "json").json == {"client": "0.1.0", "server": api.version}
    assert manent("version").err == ""
    api.version = {**api.version, "minimum_client": "0.10.0"}
    said = manent("version")
    assert (said.code, "wants manent 0.10.0" in said.err) == (0, True)


def test_version_shows_the_client_when_the_server_is_away(api, manent):
    api.down()
    said = manent("version", "-o", "json")
    assert (said.code, said.json["server"]) == (1, None)


def test_contexts_are_listed_chosen_and_shown_without_their_tokens(api, manent, tmp_path):
    folder = tmp_path / ".config" / "manent"
    folder.mkdir(parents=True)
    contexts = {name: {"url": api.url, "token": f"token-{name}"} for name in ("one", "two")}
    (folder / "contexts.json").write_text(json.dumps({"current": "one", "contexts": contexts}))
    assert manent("context", "list", "-o", "name").out == "context/one\ncontext/two\n"
    assert manent("context", "use", "two").code == 0
    assert manent("context", "show", "-o", "json").json["name"] == "two"
    assert manent("context", "show", "--context", "one", "-o", "json").json["current"] is False
    assert manent("context", "use", "three").code == 2
    for form in ("json", "yaml", "wide", "table"):
        assert "token-" not in manent("context", "list", "-o", form).out
    assert manent("show", "x", "--context", "two").code == 4


def test_unknown_variables_are_told_and_data_stays_data(api, manent):
    said = manent("list", "-o", "json", environ={"MANENT_ULR": "x"})
    assert said.json["items"] == []
    assert "MANENT_ULR is set, but nothing reads it: MANENT_URL?" in said.err


@pytest.mark.parametrize(
    "arguments",
    [(), ("lst",), ("list", "--stat", "x"), ("list", "-o", "xml"), ("show",), ("show", "a", "b"),
     ("list", "--limit", "many"), ("-o", "json"), ("deploy", "shop")],
)  # fmt: skip
def test_wrong_usage_is_exit_2_and_sends_nothing(api, manent, arguments):
    assert manent(*arguments).code == 2
    assert api.seen == []


def test_wrong_usage_in_json_is_an_object(manent):
    said = manent("list", "--nope", "-o", "json")
    assert (said.out, said.error["code"], said.error["exit_code"]) == ("", "usage", 2)
    assert manent("list", "--nope", "--output=jsonl").error["exit_code"] == 2
    assert manent("list", "--nope", "-ojson").error["exit_code"] == 2


def test_a_misspelt_command_gets_the_nearest(manent):
    assert "Did you mean 'rollback'?" in manent("rolback").err


def test_an_answer_that_makes_no_sense_is_no_success(api, manent):
    api.fixed |= {"inventory": {"items": [1]}, "deploys": [], "deploys/x": {"id": 1}}
    for arguments in (("list",), ("inventory",), ("inventory", "-o", "name")):
        said = manent(*arguments)
        assert said.code == 1
        assert "Traceback" not in said.err


def test_a_full_disk_does_not_look_like_success(api, manent):
    """B149: the data did not arrive, exit code 0."""
    api.add()
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [str(PROGRAM), "list"], env=manent.environ, stdout=full, stderr=subprocess.PIPE,
            text=True, check=False,
        )  # fmt: skip
    assert ended.returncode == 1
    assert "standard output cannot be written" in ended.stderr


def test_names_a_terminal_cannot_show_do_not_end_the_command(api, manent):
    api.add(version="1.0", reason="für 東京 \ud800")
    environ = {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    wide = manent.process("list", "-o", "wide", **environ)
    assert (wide.code, "f\\xfcr" in wide.out) == (0, True)
    assert json.loads(manent.process("list", "-o", "json", **environ).out)["items"][0][
        "reason"
    ] == ("für 東京 \ud800")
