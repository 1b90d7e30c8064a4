"""Approvals at the door: commands, exit codes, restarts, and names nobody gets around."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.rig.ledger import Ledger
from tests.rig.process import until
from tests.rig.proxy import Proxy
from tests.rig.serve import Finished, Rig

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("approvals")
    rule = {"name": "release", "quorum": 2, "expires": "24h", "unknown_requester": "allow"}
    law = {"name": "law", "from": ["lex"], "unknown_requester": "allow"}
    config = {
        "environments": {
            "staging": {"tier": "staging", "concurrency": 5, "approvals": [rule]},
            "shared": {"tier": "staging", "approvals": [{**rule, "quorum": 1}, law]},
        },
        "applications": {
            "shop": Ledger(folder).application(),
            "mail": Ledger(folder).application(("a", "b")),
            "news": Ledger(folder).application(environments=("shared",)),
        },
    }
    with Rig(folder, f"sqlite:///{folder / 'manent.db'}", config) as made:
        yield made


@pytest.fixture(scope="module")
def tokens(rig: Rig) -> dict[str, str]:
    """A token for each of two people who may approve."""
    made = {}
    for name in ("bob", "eve"):
        given = ["token", "create", name, "--role", "approver", "--kind", "person"]
        made[name] = rig.server_cli(given, check=True).stdout.strip()
    return made


def run(rig: Rig, *arguments: str, token: str | None = None, code: int = 0) -> Finished:
    environ = {"MANENT_TOKEN": token} if token is not None else {}
    ended = rig.cli(list(arguments), environ=environ)
    assert ended.returncode == code, (ended.stdout, ended.stderr)
    return ended


def waiting(rig: Rig, deploy: str) -> dict[str, Any]:
    """What a deploy asks, as soon as it asks."""

    def ask() -> dict[str, Any] | None:
        items = rig.get("/approvals", deploy=deploy, state="waiting")["items"]
        return items[0] if items else None

    return until(ask, what=f"{deploy} asks") or {}


def test_votes_outlive_a_crash_and_the_last_one_starts_what_waits(
    rig: Rig, tokens: dict[str, str]
) -> None:
    """B75: one waits with one of two votes, one with several targets with none: both go on."""
    asked = ["deploy", "shop", "staging", "1", "--no-wait-approval", "-o", "json"]
    first = run(rig, *asked, code=8)
    shop = json.loads(first.stdout)["id"]
    assert f"manent approve {shop}" in first.stderr
    mail = rig.deploy("2", application="mail")["id"]
    waiting(rig, shop), waiting(rig, mail)
    said = run(rig, "approve", shop, token=tokens["bob"])
    assert "still missing: 1 more" in said.stderr
    rig.kill()
    rig.start()
    for deploy, count in ((shop, 1), (mail, 0)):
        found = waiting(rig, deploy)
        assert len(found["votes"]) == count
        assert rig.get(f"/deploys/{deploy}")["phase"] == "awaiting_approval"
    assert rig.ledger.runs() == []
    again = run(rig, "approve", shop, token=tokens["bob"])
    assert "already recorded" in again.stderr
    run(
        rig, "approve", f"shop/staging#{rig.get(f'/deploys/{shop}')['number']}", token=tokens["eve"]
    )
    assert rig.ended(shop)["outcome"] == "deployed"
    for name in ("bob", "eve"):
        run(rig, "approve", waiting(rig, mail)["id"], token=tokens[name])
    ended = rig.ended(mail)
    assert (ended["outcome"], ended["approval"]["stage"]) == ("deployed", "given")
    assert {run.target for run in rig.ledger.runs(deploy=mail, hook="deploy")} == {"a", "b"}


def test_a_rejection_ends_it_and_the_codes_say_so(rig: Rig, tokens: dict[str, str]) -> None:
    """B80, B149: rejected is 5, no say in it is 4 with the reason, a missing comment is 2."""
    deploy = rig.deploy("3")["id"]
    asked = waiting(rig, deploy)
    denied = run(rig, "approve", deploy, code=4)
    assert "asked for it" in denied.stderr or "lacks the right" in denied.stderr
    run(rig, "reject", deploy, token=tokens["bob"], code=2)
    listed = json.loads(run(rig, "approvals", "-o", "json", token=tokens["bob"]).stdout)
    assert [(one["id"], one["may_decide"]) for one in listed["items"]] == [(asked["id"], True)]
    run(rig, "reject", deploy, "--comment", "not on a friday", token=tokens["bob"])
    ended = run(rig, "wait", deploy, code=5)
    assert "rejected by bob under rule release: not on a friday" in ended.stderr
    late = run(rig, "approve", asked["id"], token=tokens["eve"], code=5)
    assert "has ended" in late.stderr
    types = [event["type"] for event in rig.get("/events", after=0, limit=500)["items"]]
    assert {"approval.requested", "approval.decided"} <= set(types)


@pytest.fixture
def cable(rig: Rig) -> Iterator[Proxy]:
    """A way to the server that loses answers."""
    made = Proxy(int(rig.url.rpartition(":")[2]))
    yield made
    made.close()


def decide(cable: Proxy, approval: str, body: dict[str, str], **headers: str) -> httpx2.Response:
    """A decision that is sent through the cable."""
    url = f"http://127.0.0.1:{cable.port}/api/v1/approvals/{approval}/decisions"
    return httpx2.post(url, json=body, headers=headers, trust_env=False, timeout=30)


@pytest.mark.parametrize("key", [{"Idempotency-Key": "one-decision"}, {}], ids=["key", "no key"])
@pytest.mark.parametrize("word", ["approve", "reject"])
def test_a_decision_whose_answer_was_lost_is_asked_again_and_counts_once(
    rig: Rig, tokens: dict[str, str], cable: Proxy, word: str, key: dict[str, str]
) -> None:
    """I8: the line is cut between the decision and its answer; the same again says what stands."""
    deploy = rig.deploy("7")["id"]
    approval = waiting(rig, deploy)["id"]
    yes, bob, eve = {"decision": "approve"}, *(f"Bearer {tokens[name]}" for name in ("bob", "eve"))
    assert decide(cable, approval, yes, Authorization=bob).json()["message"] == "recorded"
    body = {"decision": word, "comment": "no"} if word == "reject" else yes
    cable.lose_next_answer(b"/decisions")
    with pytest.raises(httpx2.TransportError):
        decide(cable, approval, body, Authorization=eve, **key)
    assert cable.lost == 1
    # Done it is, though nobody was told.
    done = "rejected" if word == "reject" else "approved"
    until(lambda: rig.get(f"/approvals/{approval}")["state"] == done, what="the decision")
    again = decide(cable, approval, body, Authorization=eve, **key)
    assert (again.status_code, again.json()["id"]) == (200, approval)
    assert (again.json()["message"], again.json()["state"]) == ("already recorded", done)
    votes = again.json()["votes"]
    assert [(one["by"], one["decision"]) for one in votes] == [("bob", "approve"), ("eve", word)]
    told = rig.get("/audit", deploy=deploy, action="approval.decided")["items"]
    assert [one["actor"] for one in told] == ["eve", "bob"]
    other = decide(
        cable,
        approval,
        {"decision": "approve" if word == "reject" else "reject", "comment": "other"},
        Authorization=eve,
    )
    assert (other.status_code, other.json()["code"]) == (409, "already_decided")
    assert rig.ended(deploy)["outcome"] == ("rejected" if word == "reject" else "deployed")
    runs = rig.ledger.runs(deploy=deploy, hook="deploy")
    assert len(runs) == (0 if word == "reject" else 1)


@pytest.mark.parametrize(
    ("words", "outcome"),
    [(["approve"], "deployed"), (["reject", "--comment", "not now"], "rejected")],
    ids=["approve", "reject"],
)
def test_a_command_asks_again_by_itself_and_when_it_is_typed_again(
    rig: Rig, tokens: dict[str, str], cable: Proxy, words: list[str], outcome: str
) -> None:
    """With its key while it runs; typed again without one it says that it was recorded."""
    deploy = rig.deploy("8")["id"]
    waiting(rig, deploy)
    run(rig, "approve", deploy, token=tokens["bob"])
    through = {"MANENT_URL": f"http://127.0.0.1:{cable.port}", "MANENT_TOKEN": tokens["eve"]}
    command = [words[0], deploy, *words[1:]]
    cable.lose_next_answer(b"/decisions")
    said = rig.cli(command, environ=through)
    assert (said.returncode, cable.lost) == (0, 1), said.stderr
    assert "trying again" in said.stderr
    assert "already recorded" in said.stderr
    typed = rig.cli(command, environ=through)
    assert (typed.returncode, "already recorded" in typed.stderr) == (0, True), typed.stderr
    assert rig.ended(deploy)["outcome"] == outcome
    told = rig.get("/audit", deploy=deploy, action="approval.decided")["items"]
    assert [one["actor"] for one in told] == ["eve", "bob"]


def test_a_word_for_one_of_two_rules_is_said_again_while_the_other_waits(
    rig: Rig, tokens: dict[str, str]
) -> None:
    deploy = rig.deploy("1", application="news", environment="shared")["id"]
    waiting(rig, deploy)
    told = [run(rig, "approve", deploy, token=tokens["bob"]).stderr for _ in range(2)]
    assert ["rule release: recorded" in told[0], "release: already recorded" in told[1]] == [
        True
    ] * 2
    denied = run(rig, "approve", deploy, token=tokens["eve"], code=4)
    assert "rule law" in denied.stderr
    run(rig, "cancel", deploy)


@pytest.mark.parametrize(
    "name", ["STAGING", "Staging", "staging ", "\uff53taging", "stagin\u0301g", "stag\u0456ng"]
)
def test_no_spelling_of_a_name_gets_around_its_approval(rig: Rig, name: str) -> None:
    """B110: the same environment, which asks, or none at all."""
    body = {"application": "shop", "environment": name, "version": "4"}
    answer = rig.http("POST", "/deploys", json=body)
    if answer.status_code == 202:
        found = answer.json()
        assert (found["environment"], found["state"]) == ("staging", "DELAYED")
        assert found["approval"]["stage"] == "resolving"
    else:
        assert answer.status_code in (404, 422), answer.text
