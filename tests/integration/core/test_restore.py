"""Deciding about a restored database: resume, close, cancel, open."""

from dataclasses import replace
from pathlib import Path

import pytest

from manent_server.domain.audit import Entry
from manent_server.domain.errors import Conflict, Invalid, KeyReused, NotAllowed, NotFound
from manent_server.domain.installation import least_epoch_of_deploys
from manent_server.domain.marks import Sort
from manent_server.observability.audit_file import AuditFile
from manent_server.store import audit_positions, installation
from manent_server.usecases import cancel, mark, restore, review, submit
from manent_server.usecases.requests import (
    CancelRequest,
    DeployRequest,
    IdempotencyKey,
    MarkRequest,
    OpenRequest,
    RestoreLook,
    RestoreRequest,
)
from manent_server.usecases.verify import verify
from tests.integration.core.restoring import gone_back, guard, head, standing
from tests.integration.core.running import BAD, Running
from tests.integration.core.test_lost_answers import Forgetful
from tests.rig.core import ADMIN, VIEWER, Core


def decide(core: Core, decision: str, *deploys: str, **more: object) -> dict[str, object]:
    request = RestoreRequest(decision, deploys, not deploys, **more)  # type: ignore[arg-type]
    return restore.decide(core.desk, request, caller=ADMIN)


def fence(core: Core) -> None:
    memory = gone_back(core)
    assert not guard(core, memory).look()


def stock(core: Core) -> dict[str, tuple[str | None, str]]:
    return {row["application"]: (row["version"], row["state"]) for row in core.rows("inventory")}


def test_each_live_deploy_is_decided_then_it_opens(core: Core) -> None:
    """B139: it may go on, has ended on its targets, or is not wanted any more."""
    running = Running(core, "shop")
    ran = core.submit("mail", version="2")
    waits = core.submit("news", version="3")
    fence(core)
    found = review.review(core.desk, caller=ADMIN)
    assert {item["id"]: item["decision"] for item in found["items"]} == {
        running.deploy.id: None, ran: None, waits: None,
    }  # fmt: skip
    with pytest.raises(Conflict, match="3 deploys are undecided"):
        restore.open_up(core.desk, OpenRequest(), caller=ADMIN)
    assert decide(core, "close", ran, outcome="deployed")["undecided"] == 2
    assert decide(core, "cancel", waits)["undecided"] == 1
    assert decide(core, "resume", running.deploy.id, reason="it was cut off")["undecided"] == 0
    assert (core.deploy(ran).outcome, core.deploy(waits).outcome) == ("deployed", "cancelled")
    assert stock(core) == {"mail": ("2", "known")}


def test_opened_it_goes_on_beyond_what_was_lost(core: Core) -> None:
    """B139: what may go on goes on by a dispatch of its own; epochs and numbers have risen."""
    running = Running(core, "shop")
    old = core.deploy(running.deploy.id).epoch
    fence(core)
    decide(core, "resume", running.deploy.id)
    lost = standing(core).known_number or 0
    opened = restore.open_up(core.desk, OpenRequest(), caller=ADMIN)
    assert (opened["epoch"], opened["resumed"]) == (2, [running.deploy.id])
    assert opened["goes_on_at"] > lost
    assert standing(core).fenced_at is None
    core.worker("w2")
    core.reconciler().round()
    row = core.deploy(running.deploy.id)
    assert (row.state, row.phase, row.executor) == ("ENQUEUED", "interrupted", None)
    assert row.epoch > max(old, least_epoch_of_deploys(2))
    head(core)
    whole = verify(core.store)
    assert whole.broken is None
    assert whole.gaps == [(lost - 50 + 1, opened["goes_on_at"] - 1)]
    actions = [record["action"] for record in core.rows("audit")]
    assert actions.count("restore.decided") == 1
    assert actions.count("restore.opened") == 1


@pytest.mark.parametrize("outcome", ["rolled_back", "failed", "rollback_failed"])
def test_what_an_outcome_does_not_say_is_unknown(core: Core, outcome: str) -> None:
    """B139: nobody knows what is on a target of a deploy that failed after the restored point."""
    running = Running(core)
    fence(core)
    decide(core, "close", running.deploy.id, outcome=outcome)
    row = core.deploy(running.deploy.id)
    assert (row.state, row.outcome) == ("ERROR", outcome)
    assert stock(core) == {"shop": (None, "unknown")}
    locks = [one["sort"] for one in core.rows("marks") if one["automatic"]]
    assert locks == {"rolled_back": ["hold"], "failed": [], "rollback_failed": ["lock"]}[outcome]


def test_the_pages_own_steps_work_while_fenced(core: Core) -> None:
    """B139: cancel and lock, while a deploy is refused."""
    waits = core.submit("shop")
    other = core.submit("mail")
    fence(core)
    desk = core.desk.opened()
    request = DeployRequest("news", "staging", "9")
    with pytest.raises(Conflict) as refused:
        submit.submit(desk, request, caller=ADMIN)
    assert refused.value.code == "restore_fenced"
    assert cancel.cancel(core.desk, waits, CancelRequest(), caller=ADMIN)["outcome"] == "cancelled"
    assert mark.put(core.desk, MarkRequest(Sort.LOCK, "look", "shop", "staging"), caller=ADMIN)
    found = review.review(core.desk, caller=ADMIN)
    assert [item["id"] for item in found["items"]] == [other]


def test_forced_open_is_on_record_with_what_was_undecided(core: Core) -> None:
    left = core.submit("shop")
    fence(core)
    with pytest.raises(Invalid, match="reason"):
        restore.open_up(core.desk, OpenRequest(force=True), caller=ADMIN)
    opened = restore.open_up(core.desk, OpenRequest(force=True, reason="all good"), caller=ADMIN)
    assert opened["undecided"] == [left]
    [record] = [one for one in core.rows("audit") if one["action"] == "restore.opened"]
    assert record["detail"]["undecided"] == [left]
    assert record["detail"]["reason"] == "all good"


def test_nothing_is_decided_where_nothing_is_fenced(core: Core) -> None:
    deploy = core.submit("shop")
    assert review.review(core.desk, caller=ADMIN)["fenced"] is False
    for act in (
        lambda: decide(core, "resume", deploy),
        lambda: restore.open_up(core.desk, OpenRequest(), caller=ADMIN),
    ):
        with pytest.raises(Conflict) as refused:
            act()
        assert refused.value.code == "not_fenced"
    fence(core)
    with pytest.raises(Invalid, match="no outcome"):
        decide(core, "close", deploy, outcome="superseded")
    with pytest.raises(Invalid, match="name deploys"):
        restore.decide(core.desk, RestoreRequest("resume"), caller=ADMIN)


def test_what_is_lost_comes_in_pages(
    core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core.submit()
    number, _ = head(core)
    file = AuditFile(tmp_path / "audit.jsonl", 10**6)
    with core.store.read() as tx:
        file.give(audit_positions.entries(tx, after=0, limit=100))
    names = [f"{n}" * 26 for n in (5, 3, 8, 1, 4)]
    for offset, name in zip((1, 2, 3, 4, 500), names, strict=True):
        beside = '"at":"2026-01-01T00:00:00.000000Z","actor":"manent","action":"deploy.requested"'
        text = f'{{{beside},"deploy":"{name}","detail":{{"version":"8"}}}}'
        file.give([Entry(number + offset, "0" * 64, text)])
    core.configure(audit=replace(core.settings.audit, file=tmp_path / "audit.jsonl"))
    fence(core)
    monkeypatch.setattr(review, "_PAGE", 2)
    pages: list[list[str]] = []
    after = None
    while after is not None or not pages:
        found = review.review(core.desk, RestoreLook(lost_after=after), caller=ADMIN)
        pages.append([one["id"] for one in found["lost"]])
        after = found["lost_next"]
    assert pages == [names[:2], names[2:4], names[4:]]
    with pytest.raises(NotFound):
        review.review(core.desk, RestoreLook(lost_after="x"), caller=ADMIN)
    # What the file has beyond all that was known is given to no other record.
    opened = restore.open_up(core.desk, OpenRequest(force=True, reason="all good"), caller=ADMIN)
    assert opened["goes_on_at"] > number + 500 + 1_000_000


def test_who_repeats_a_decision_is_told_what_was_decided(core: Core) -> None:
    """Also once it is opened: the answer before may have been lost."""
    first, second = core.submit("shop"), core.submit("mail")
    fence(core)

    def close(digest: str = "d") -> dict[str, object]:
        key = IdempotencyKey("c", "/admin/restore/close", digest)
        request = RestoreRequest("close", (second, first), outcome="failed")
        return restore.decide(core.desk, request, caller=ADMIN, key=key)

    def open_up() -> dict[str, object]:
        key = IdempotencyKey("o", "/admin/restore/open", "d")
        return restore.open_up(core.desk, OpenRequest(), caller=ADMIN, key=key)

    told = close()
    assert told["deploys"] == sorted((first, second))
    assert close() == told
    opened = open_up()
    assert opened["undecided"] == []
    assert open_up() == opened
    assert close() == told
    with pytest.raises(KeyReused):
        close("another")


def test_a_lost_answer_of_the_database_decides_nothing_twice(core: Core) -> None:
    """By a command on the database itself, which has no key."""
    deploy = core.submit("shop")
    fence(core)
    forgetful = replace(core.desk, store=Forgetful(core.store))
    request = RestoreRequest("cancel", (deploy,))
    assert restore.decide(forgetful, request, caller=ADMIN)["deploys"] == [deploy]
    assert restore.open_up(forgetful, OpenRequest(), caller=ADMIN)["epoch"] == 2
    actions = [record["action"] for record in core.rows("audit")]
    assert (actions.count("restore.decided"), actions.count("restore.opened")) == (1, 1)


def test_restored_twice(core: Core) -> None:
    """B139: what may go on after the first time is undecided after the second."""
    running = Running(core, "shop")
    fence(core)
    decide(core, "resume", running.deploy.id)
    opened = restore.open_up(core.desk, OpenRequest(), caller=ADMIN)
    memory = gone_back(core, epochs=1)
    assert not guard(core, memory).look()
    [item] = review.review(core.desk, caller=ADMIN)["items"]
    assert item["decision"] is None
    decide(core, "cancel")
    again = restore.open_up(core.desk, OpenRequest(), caller=ADMIN)
    assert again["epoch"] == 4
    assert int(str(again["goes_on_at"])) > int(str(opened["goes_on_at"])) + 1_000_000
    head(core)
    assert verify(core.store).broken is None


def test_a_running_deploy_that_is_cancelled_by_hand_is_decided(core: Core) -> None:
    """B139: no worker ends it now; it ends when it is opened."""
    running = Running(core)
    running.hand_out(running.errand())
    fence(core)
    cancel.cancel(core.desk, running.deploy.id, CancelRequest(), caller=ADMIN)
    found = review.review(core.desk, caller=ADMIN)
    assert [item["decision"] for item in found["items"]] == ["cancel"]
    assert found["undecided"] == 0
    with pytest.raises(Conflict, match="was cancelled"):
        decide(core, "resume", running.deploy.id)
    assert restore.open_up(core.desk, OpenRequest(), caller=ADMIN)["resumed"] == []


def test_a_rollback_that_was_cut_short_is_not_hidden_by_a_cancel(core: Core) -> None:
    running = Running(core)
    running.perform("deploy:web", BAD)
    running.undo("web")
    running.hand_out(running.errand("rollback:web"))
    fence(core)
    decide(core, "cancel", running.deploy.id)
    assert core.deploy(running.deploy.id).outcome == "rollback_failed"
    assert [one["sort"] for one in core.rows("marks") if one["automatic"]] == ["lock"]


def test_all_or_none_is_decided_and_once(core: Core) -> None:
    """B139: a person's repeated request decides nothing twice."""
    first, second = core.submit("shop"), core.submit("mail")
    fence(core)
    decide(core, "cancel", second)
    with pytest.raises(Conflict, match="has ended"):
        decide(core, "close", first, second, outcome="failed")
    assert core.deploy(first).outcome is None
    key = IdempotencyKey("k", "/admin/restore/open", "d")
    decide(core, "resume")
    restore.open_up(core.desk, OpenRequest(), caller=ADMIN, key=key)
    restore.open_up(core.desk, OpenRequest(), caller=ADMIN, key=key)
    assert standing(core).epoch == 2


def test_the_file_of_the_record_says_what_became_of_each(core: Core, tmp_path: Path) -> None:
    """B139: and of deploys that the restored database does not know at all."""
    running = Running(core)
    number, _ = head(core)
    file = AuditFile(tmp_path / "audit.jsonl", 10**6)
    with core.store.read() as tx:
        file.give(audit_positions.entries(tx, after=0, limit=100))
    beside = '"at":"2026-01-01T00:00:00.000000Z","actor":"manent"'
    lines = [
        (running.deploy.id, "deploy.ended", {"outcome": "deployed", "version": "1"}),
        ("f" * 26, "deploy.requested", {"version": "8"}),
        ("f" * 26, "deploy.ended", {"outcome": "failed", "version": "8"}),
    ]
    for offset, (deploy, action, detail) in enumerate(lines, start=1):
        words = str(detail).replace("'", '"')
        text = f'{{{beside},"action":"{action}","deploy":"{deploy}","detail":{words}}}'
        file.give([Entry(number + offset, "0" * 64, text)])
    audit = replace(core.settings.audit, file=tmp_path / "audit.jsonl")
    core.configure(audit=audit)
    fence(core)
    with core.store.write() as tx:
        installation.update(tx, restored_number=number, known_number=number + 5)
    found = review.review(core.desk, caller=ADMIN)
    # Others write it too, each on its own machine: nobody may take a part for the whole.
    assert "lacks 2 of these records" in found["record"]
    with core.store.write() as tx:
        installation.update(tx, known_number=number + 3)
    found = review.review(core.desk, caller=ADMIN)
    assert found["record"] == "read"
    [item] = found["items"]
    assert (item["outcome"], [one["action"] for one in item["records"]]) == (
        "deployed",
        ["deploy.ended"],
    )
    [lost] = found["lost"]
    assert (lost["id"], lost["version"], lost["outcome"]) == ("f" * 26, "8", "failed")
    (tmp_path / "audit.jsonl").write_text(f'{{"number":{number},"hash":"x","record":{{}}}}\n')
    found = review.review(core.desk, caller=ADMIN)
    assert "another installation" in found["record"]


def test_only_an_operator_decides(core: Core) -> None:
    fence(core)
    with pytest.raises(NotAllowed):
        review.review(core.desk, caller=VIEWER)
