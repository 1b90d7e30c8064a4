"""`manent deploy`, `redeploy`, `rollback`: one request, one end, one exit code."""

import pytest

from tests.rig.fake_api import GOOD, FakeApi, Script, ends
from tests.rig.fake_http import TOKEN, Refusal, problem
from tests.rig.manent import Manent

SHOP = ("deploy", "shop", "production", "1.10")


@pytest.fixture
def api():
    with FakeApi() as api:
        yield api


@pytest.fixture
def manent(tmp_path, api):
    return Manent(tmp_path, api)


def test_a_deploy_prints_its_id_alone_and_talks_on_stderr(api, manent):
    said = manent.process(*SHOP)
    assert (said.code, said.out) == (0, "0197-deploy-0001\n")
    lines = [line.partition("Z ")[2] or line for line in said.err.splitlines()]
    assert lines == [
        "deploy 0197-deploy-0001 (#1): shop 1.10 to production",
        "log deploy:web-1 | copying",
        "log deploy:web-1 | done",
        "step deploy:web-1 succeeded",
        "SUCCESS deployed",
    ]


def test_the_final_deploy_is_printed_as_json(manent):
    said = manent(*SHOP, "-o", "json")
    assert said.code == 0
    assert (said.json["state"], said.json["outcome"]) == ("SUCCESS", "deployed")


@pytest.mark.parametrize(
    ("form", "out"),
    [("name", "deploy/0197-deploy-0001\n"), ("table", "SUCCESS"), ("wide", "REQUESTED BY")],
)
def test_other_forms_print_once(manent, form, out):
    said = manent(*SHOP, "-o", form)
    assert out in said.out
    assert said.out.count("0197-deploy-0001") == 1


FAILURES = [
    (ends("ERROR", "failed", error={"step": "deploy:web-1", "message": "exit 3"}), 3),
    (ends("ERROR", "rolled_back"), 3),
    (ends("ERROR", "rollback_failed"), 3),
    (ends("ERROR", "poisoned"), 3),
    (ends("CANCELLED", "cancelled", cancel={"by": "ops", "reason": "not today"}), 9),
    (ends("CANCELLED", "abandoned"), 9),
    (ends("CANCELLED", "rejected"), 5),
    (ends("CANCELLED", "superseded", superseded_by="0197-x"), 11),
    (ends("CANCELLED", "expired"), 12),
    (ends("SUCCESS", "partial"), 13),
    (ends("SUCCESS", "deployed", version="1.1"), 1),
    (ends("SUCCESS", None), 1),
]


@pytest.mark.parametrize(("script", "code"), FAILURES)
@pytest.mark.parametrize("form", [(), ("-o", "json"), ("-o", "name")])
def test_no_end_but_the_asked_one_is_success(api, manent, script, code, form):
    """B149: failed deploy, exit code 0."""
    api.script = script
    said = manent(*SHOP, *form)
    assert said.code == code
    assert "0197-deploy-0001" in said.out


def test_a_failed_end_says_what_why_and_what_next(api, manent):
    api.script = FAILURES[0][0]
    assert manent(*SHOP).err.splitlines()[-3:] == [
        "error: deploy 0197-deploy-0001 of shop 1.10 to production ended ERROR (failed)",
        "  why: deploy:web-1: exit 3",
        "  next: see manent show 0197-deploy-0001, manent logs 0197-deploy-0001",
    ]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (FAILURES[4][0], "cancelled by ops: not today"),
        (FAILURES[7][0], "deploy 0197-x came later"),
        (FAILURES[10][0], "version 1.10 was asked for, not 1.1"),
    ],
)
def test_every_end_has_its_reason(api, manent, script, why):
    api.script = script
    assert f"  why: {why}\n" in manent(*SHOP).err


def test_a_failure_in_json_leaves_both_streams_to_programs(api, manent):
    api.script = FAILURES[0][0]
    said = manent(*SHOP, "-o", "json")
    assert said.json["outcome"] == "failed"
    assert said.error["code"] == "deploy_ended"
    assert said.error["exit_code"] == 3
    assert said.error["deploy"]["error"]["message"] == "exit 3"


REFUSALS = [
    (400, "malformed", 2),
    (401, "not_signed_in", 4),
    (403, "not_allowed", 4),
    (404, "not_found", 6),
    (409, "refused", 5),
    (422, "name_invalid", 2),
    (418, "teapot", 1),
]


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("form", ["json", "jsonl", "yaml"])
def test_a_refusal_in_json_is_one_object_on_stderr(api, manent, refusal, form):
    """B149: 401, unknown app and the like have distinct codes."""
    status, code, exit_code = refusal
    api.refusals.append(Refusal("POST", "/deploys", status, problem(status, code, near="shop")))
    said = manent(*SHOP, "-o", form)
    assert (said.code, said.out) == (exit_code, "")
    assert len(said.err.splitlines()) == 1
    assert said.error == {**problem(status, code, near="shop"), "exit_code": exit_code}


def test_a_refusal_for_people_gives_the_servers_words_and_its_request(api, manent):
    finding = {"path": "version", "message": "must not begin with a dash"}
    body = problem(422, "name_invalid", errors=[finding])
    api.refusals.append(Refusal("POST", "/deploys", 422, body))
    assert manent(*SHOP).err.splitlines() == [
        "error: a detail of name_invalid",
        "  why: A title; version: must not begin with a dash",
        "  next: do this about name_invalid",
        "  request: request-1",
    ]


def test_a_server_that_fails_for_good_is_no_success(api, manent):
    """B149: server 500."""
    api.refusals.append(Refusal("POST", "/deploys", 500, problem(500, "internal"), times=-1))
    said = manent(*SHOP)
    assert (said.code, said.out) == (1, "")


def test_bad_configuration_is_told_before_anything_is_asked(api, manent):
    """B149: bad config."""
    for environ in ({"MANENT_URL": "ftp://x"}, {"MANENT_OUTPUT": "xml"}, {"MANENT_URL": ""}):
        said = manent(*SHOP, environ=environ)
        assert (said.code, said.out) == (2, "")
    assert api.seen == []


def test_every_field_of_the_request_has_its_option(api, manent, tmp_path):
    changes = tmp_path / "changes.json"
    changes.write_text('[{"id": "c1", "author": "ann", "at": "2027-01-31T18:00:00Z"}]')
    said = manent(
        *SHOP, "--sha256", "ab", "--reason", "why", "--not-before", "2027-01-31T18:00:00Z",
        "--not-after", "2027-02-01T18:00:00Z", "--priority", "7", "--sequence", "41",
        "--if-blocked", "refuse", "--override", "freeze",
        "--override", "window", "--target", "web-1", "--target", "web-2",
        "--link", "ci=https://ci.example/1?a=b", "--changes", str(changes), "--key", "k-1",
    )  # fmt: skip
    assert said.code == 0
    [post] = api.requests("POST", "/deploys")
    assert post.headers["idempotency-key"] == "k-1"
    assert post.body == {
        "application": "shop",
        "environment": "production",
        "version": "1.10",
        "kind": "deploy",
        "sha256": "ab",
        "reason": "why",
        "not_before": "2027-01-31T18:00:00Z",
        "not_after": "2027-02-01T18:00:00Z",
        "priority": 7,
        "sequence": 41,
        "if_blocked": "refuse",
        "override": ["freeze", "window"],
        "targets": ["web-1", "web-2"],
        "links": {"ci": "https://ci.example/1?a=b"},
        "changes": [{"id": "c1", "author": "ann", "at": "2027-01-31T18:00:00Z"}],
    }


def test_a_plain_deploy_sends_no_field_nobody_gave(api, manent):
    manent(*SHOP)
    [post] = api.requests("POST", "/deploys")
    assert set(post.body) == {"application", "environment", "version", "kind"}
    assert len(post.headers["idempotency-key"]) == 32


@pytest.mark.parametrize(
    "version", ["1.10", "72225e2", "012", "1_000", "2027-01-02", "no", "12:30", "1e3", "v1+b.5"]
)
def test_a_version_is_sent_as_the_text_it_is(api, manent, version):
    """B114: 1.10 becomes 1.1, commit 72225e2 becomes a number."""
    assert manent("deploy", "shop", "production", version).code == 0
    assert api.requests("POST", "/deploys")[0].body["version"] == version


@pytest.mark.parametrize(
    "version",
    ["--no-wait", "--help", "-h", "-v1", "--", "-", "--version", "--override=freeze", "--key=x",
     "--reason", "--target=web-1", "-ojson", "--timeout=1s"],
)  # fmt: skip
def test_a_version_with_a_dash_never_becomes_an_option(api, manent, version):
    """B149: `manent deploy shop production "$VERSION"` deploys nothing and exits 0."""
    said = manent("deploy", "shop", "production", version)
    sent = [post.body["version"] for post in api.requests("POST", "/deploys")]
    if sent:
        assert sent == [version]
    else:
        assert said.code == 2
    assert said.code == 2 or sent


def test_an_option_takes_what_follows_it_even_with_a_dash(api, manent):
    manent("rollback", "shop", "production", "--to", "--no-wait")
    assert api.requests("POST", "/rollbacks")[0].body["to"] == "--no-wait"


def test_redeploy_asks_for_what_is_there(api, manent):
    assert manent("redeploy", "shop", "production", "--no-wait").out == "0197-deploy-0001\n"
    [post] = api.requests("POST", "/deploys")
    assert post.body == {"application": "shop", "environment": "production", "kind": "redeploy"}


def test_rollback_goes_back_and_checks_where_to(api, manent):
    assert manent("rollback", "shop", "production", "--to", "0.9", "--reason", "bad").code == 0
    assert manent("rollback", "shop", "production", "--current-configuration").code == 0
    first, second = api.requests("POST", "/rollbacks")
    assert first.body == {
        "application": "shop", "environment": "production", "to": "0.9", "reason": "bad",
    }  # fmt: skip
    assert second.body["current_configuration"] is True
    assert "to" not in second.body
    api.script = ends("SUCCESS", "deployed", version="0.8")
    assert manent("rollback", "shop", "production", "--to", "0.9").code == 1


def test_no_wait_gives_the_id_at_once_and_asks_nothing_more(api, manent):
    api.script = Script()
    said = manent(*SHOP, "--no-wait")
    assert (said.code, said.out) == (0, "0197-deploy-0001\n")
    assert len(api.seen) == 1
    assert manent(*SHOP, "--no-wait", "-o", "json").json["state"] == "ENQUEUED"


def test_the_same_key_is_the_same_deploy_in_two_runs(api, manent):
    first, second = manent(*SHOP, "--key", "ci-7"), manent(*SHOP, "--key", "ci-7")
    assert first.out == second.out
    assert second.code == 0


def test_warnings_of_the_server_are_told(api, manent):
    api.script = Script(
        changes=[(0, {"warnings": ["the rollback target is gone"]}), *GOOD.changes],
        steps=GOOD.steps,
        lines=GOOD.lines,
    )
    assert "warning: the rollback target is gone\n" in manent(*SHOP).err


@pytest.mark.parametrize("link", ["ci", "ci=", "=x"])
def test_a_link_without_name_or_url_is_refused(api, manent, link):
    assert manent(*SHOP, "--link", link).code == 2
    assert api.seen == []


@pytest.mark.parametrize("content", [None, "{", "\udcff"])
def test_changes_that_cannot_be_read_are_refused(api, manent, tmp_path, content):
    file = tmp_path / "changes.json"
    if content is not None:
        file.write_text(content, errors="surrogateescape")
    said = manent(*SHOP, "--changes", str(file))
    assert said.code == 2
    assert "changes.json" in said.err
    assert api.seen == []


def test_an_answer_that_is_no_deploy_is_no_success(api, manent):
    for body in ("<html>sign in</html>", [], {}, {"state": "SUCCESS"}, None):
        api.refusals.append(Refusal("POST", "/deploys", 200, body))
        said = manent(*SHOP, "-o", "json")
        assert (said.code, said.out) == (1, "")
        assert said.error["code"] == "strange_answer"


def test_a_server_elsewhere_is_named_not_followed(api, manent):
    place = {"Location": "https://u:p@manent.example/api/v1/deploys?token=x"}
    api.refusals.append(Refusal("POST", "/deploys", 301, "", headers=place))
    said = manent(*SHOP)
    assert said.code == 1
    assert "https://***@manent.example/api/v1/deploys\n" in said.err
    assert len(api.seen) == 1


def test_the_token_is_never_printed(api, manent):
    for arguments in (SHOP, ("context", "list"), ("version", "-o", "json"), ("show", "nothing")):
        said = manent(*arguments)
        assert TOKEN not in said.out + said.err
    api.refusals.append(Refusal("POST", "/deploys", 418, problem(418, "teapot"), times=-1))
    assert TOKEN not in manent(*SHOP, "-o", "json").err
