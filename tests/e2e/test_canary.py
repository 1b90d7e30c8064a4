"""A secret planted in every input comes out nowhere."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import pytest

from tests.e2e.test_secrets import everything_stored
from tests.rig.process import until
from tests.rig.receiver import Receiver
from tests.rig.serve import Rig

pytestmark = pytest.mark.e2e

# Known to the server by the name of its variable.
KNOWN = "c4nary-known-7Kq2xZ"
# Known to nobody: only what is never shown at all hides it.
STRANGE = "c4nary-strange-9Wm5y"
BOTH = (KNOWN, STRANGE)
TOKENS = (f"mnt_u_{STRANGE}", KNOWN, f"{STRANGE}.eyJh.{STRANGE}")
PLACE = {"application": "shop", "environment": "staging"}
Answer = httpx2.Response


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Rig, Receiver]]:
    folder = tmp_path_factory.mktemp("canary")
    with Receiver(status=500) as receiver:
        config: dict[str, Any] = {
            "server": {"log": {"level": "debug"}},
            "notify": {
                "board": {
                    "plugin": "webhook",
                    "url": receiver.url + "/${CANARY_TOKEN}",
                    "secret": "secret://env/SIGNING",
                    "events": ["*"],
                    "allow_networks": ["127.0.0.0/8"],
                }
            },
            "applications": {
                "shop": {
                    "options": {"environment": {"API": "secret://env/CANARY_TOKEN", "MODE": "fast"}}
                }
            },
        }
        environ = {"CANARY_TOKEN": KNOWN, "SIGNING": "whsec_" + "QzR5" * 12}
        url = f"sqlite:///{folder / 'manent.db'}"
        with Rig(folder, url, config, options=("--no-worker",), environ=environ) as rig:
            yield rig, receiver


def planted(rig: Rig) -> Iterator[Answer]:
    """Every way in, with a secret in it."""
    for token in TOKENS:
        yield rig.http("GET", "/deploys", headers={"Authorization": f"Bearer {token}"})
        yield rig.http("GET", "/deploys", headers={"Authorization": token})
    for header in ("Cookie", "X-Api-Key", "Accept", "X-Forwarded-For", "Origin", "User-Agent"):
        for secret in BOTH:
            yield rig.http("GET", "/deploys", headers={header: f"a={secret}"})
    yield rig.http("GET", "/deploys", headers={"Last-Event-ID": STRANGE})
    yield rig.http(
        "GET", "/events", headers={"Last-Event-ID": STRANGE, "Accept": "text/event-stream"}
    )
    for name in ("application", "version", "environment", "state", "outcome", "before", KNOWN):
        yield rig.http("GET", "/deploys", params={name: KNOWN})
    for name in ("state", "outcome", "before", "limit", "token"):
        yield rig.http("GET", "/deploys", params={name: STRANGE})
    for path in ("deploys", "environments", "schedules", "locks"):
        yield rig.http("GET", f"/{path}/{KNOWN}")
        yield rig.http("DELETE", f"/{path}/{KNOWN}")
    yield from bodies(rig)
    yield from elsewhere(rig)


def elsewhere(rig: Rig) -> Iterator[Answer]:
    """Sign-ins, links, chats, decisions, the record and figures; what operators decide."""
    told = f"the token is {KNOWN}"
    for path, body in (
        ("/auth/sessions", {"assertion": STRANGE}),
        ("/auth/sessions", {"assertion": f"{STRANGE}.e30.e30", "rule": KNOWN}),
        ("/links", {"code": STRANGE}),
        ("/links/remove", {"chat": KNOWN, "account": KNOWN}),
        ("/tokens", {"name": KNOWN, "role": STRANGE}),
        (f"/approvals/{KNOWN}/decisions", {"decision": "reject", "comment": told}),
        ("/rollbacks", {**PLACE, "reason": told}),
        ("/promotions", {"application": "shop", "from": "staging", "to": KNOWN}),
        ("/admin/recover", {"executor": KNOWN, "reason": told}),
        ("/admin/restore/open", {"reason": told}),
        ("/admin/restore/close", {"deploys": [KNOWN], "outcome": "failed", "reason": told}),
        ("/schedules/nightly/pause", {"reason": told}),
    ):
        yield rig.http("POST", path, json=body)
    for name in ("actor", "action", "deploy", "application", "since", "before"):
        yield rig.http("GET", "/audit", params={name: KNOWN})
    for name in ("timezone", "application", "tier", "from"):
        yield rig.http("GET", "/dora", params={name: KNOWN})
    for secret in BOTH:
        headers = {"x-slack-signature": f"v0={secret}", "webhook-id": secret}
        url = f"{rig.url}/webhooks/{KNOWN}"
        yield httpx2.post(url, content=secret.encode(), headers=headers, trust_env=False)


def bodies(rig: Rig) -> Iterator[Answer]:
    """Bodies that are refused, and one of each that is accepted with a secret in its words."""
    good = {**PLACE, "version": "1"}
    wrong: list[Mapping[str, Any]] = [
        {**good, KNOWN: STRANGE},
        {**good, "password": STRANGE},
        {**good, "version": [STRANGE]},
        {**good, "sha256": STRANGE},
        {**good, "not_before": STRANGE},
        {**good, "collision": STRANGE},
        {**good, "version": KNOWN + " "},
        {**good, "application": KNOWN},
        {**good, "links": {"ci": STRANGE}},
    ]
    for body in wrong:
        answer = rig.http("POST", "/deploys", json=dict(body))
        assert answer.status_code in (404, 422), answer.text
        yield answer
    yield rig.http("POST", "/deploys", content=f'{{"a": "{STRANGE}'.encode())
    yield rig.http("POST", "/deploys", content=STRANGE.encode(), headers={"Content-Type": STRANGE})
    links = {"ci": f"https://ci.example/{KNOWN}"}
    changes = [{"id": "1", "author": f"ann {KNOWN}", "at": "2027-01-31T18:00:00Z"}]
    told = {"reason": f"the token is {KNOWN}"}
    accepted = rig.http(
        "POST", "/deploys", json={**good, **told, "links": links, "changes": changes}
    )
    assert accepted.status_code == 202, accepted.text
    yield accepted
    deploy = accepted.json()["id"]
    yield rig.http("POST", f"/deploys/{deploy}/cancel", json=told)
    for sort in ("locks", "freezes", "holds", "stops"):
        made = rig.http("POST", f"/{sort}", json=told)
        assert made.status_code == 201, made.text
        yield made
    yield rig.http("POST", "/vetoes", json={**told, **PLACE, "version": "9"})
    plan = rig.http("POST", "/schedules", json={
        "name": "nightly", **PLACE, "version": "1", "cron": "0 0 * * *", **told,
    })  # fmt: skip
    assert plan.status_code == 201, plan.text
    yield plan


def answers(rig: Rig, deploy: str) -> Iterator[Answer]:
    """Everything that can be read, a refusal on the way too."""
    paths = ["/deploys", "/inventory", "/environments", "/environments/staging", "/applications"]
    paths += ["/marks", "/schedules", "/events", "/notices", "/sinks", "/admin/executors"]
    paths += [f"/deploys/{deploy}{part}" for part in ("", "/steps", "/explain", "/logs")]
    for path in paths:
        answer = rig.http("GET", path)
        assert answer.status_code == 200, (path, answer.text)
        yield answer
    yield rig.http("POST", "/plans", json={**PLACE, "version": "2"})


def test_no_secret_comes_out_of_any_way_in(server: tuple[Rig, Receiver]) -> None:
    """B106, B108, B122, I18: answers, events, notices, the record, the log, metrics, commands."""
    rig, receiver = server
    said = list(planted(rig))
    assert all(answer.status_code < 500 for answer in said)
    deploy = next(answer.json()["id"] for answer in said if answer.status_code == 202)
    until(lambda: len(receiver.seen) > 0, what="a notice")
    until(lambda: rig.get("/sinks")["items"][0]["waiting"] > 0, what="a failed notice")
    said += list(answers(rig, deploy))
    texts = [f"{answer.headers} {answer.text}" for answer in said]
    texts += [json.dumps(answer.json()) for answer in said if "json" in str(answer.headers)]
    texts += [letter.body.decode() for letter in receiver.seen]
    texts += [str(letter.headers) for letter in receiver.seen]
    texts.append(httpx2.get(f"{rig.metrics_url()}/metrics", trust_env=False).text)
    commands = (
        ["list"],
        ["show", deploy],
        ["marks"],
        ["explain", deploy],
        ["deploy", KNOWN, "x", "1"],
    )
    for command in commands:
        done = rig.cli(command)
        texts += [done.stdout.replace(KNOWN, "") if KNOWN in command else done.stdout]
        texts += [done.stderr.replace(f"{KNOWN!r}", "") if KNOWN in command else done.stderr]
    words = ("--executor", "nobody", "--force", "--reason", f"the token is {KNOWN}")
    local = rig.server_cli(["admin", "recover", "--local", *words], check=True)
    texts += [local.stdout, local.stderr]
    # The words around them are there: nothing was hidden by being lost.
    assert any("the token is ***" in text for text in texts)
    assert [text for text in texts if KNOWN in text or STRANGE in text] == []
    rig.stop()
    assert KNOWN not in rig.logs()
    assert STRANGE not in rig.logs()
    stored = everything_stored(rig)
    assert "the token is ***" in stored
    assert STRANGE not in stored
    # What manent.yml gives to hooks in the clear stands in the order, and nowhere else.
    assert_only_in_orders(rig)


def assert_only_in_orders(rig: Rig) -> None:
    import sqlite3  # noqa: PLC0415 - only here

    with sqlite3.connect(rig.folder / "manent.db") as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in names:
            for row in connection.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - its own names
                told = [str(cell) for cell in row if KNOWN in str(cell)]
                assert all('"plugin"' in cell for cell in told), (table, told)
