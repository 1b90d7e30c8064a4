"""Notices: each sink is told by itself, at least once, in bounded time."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.domain.access import Caller, everywhere
from manent_server.domain.errors import NotAllowed, NotFound
from manent_server.domain.secret import Secret
from manent_server.settings.values import NoticeRetry, Webhook
from manent_server.store import notices as rows
from manent_server.store import records
from manent_server.store.notices import Notice
from manent_server.store.records import Deed
from manent_server.usecases import listen, publish, sinks
from manent_server.usecases.deliver import Courier, Receipt
from manent_server.usecases.requests import IdempotencyKey
from tests.rig.core import ADMIN, Core, long_ago

HOOK = Webhook(
    plugin="webhook",
    url=Secret("https://hooks.example/in"),
    secret=(Secret("whsec_" + "A" * 40),),
    events=("*",),
    applications=(),
    environments=(),
    allow_networks=(),
    timeout=timedelta(seconds=1),
    retry=NoticeRetry(
        initial=timedelta(seconds=5), factor=3, cap=timedelta(minutes=5), total=timedelta(hours=1)
    ),
)


@dataclass
class Receiver:
    """Answers as told, by default with 200."""

    answers: list[Receipt] = field(default_factory=list)
    heard: list[Notice] = field(default_factory=list)
    limit: timedelta = timedelta(seconds=1)
    lacks: str | None = None

    def lacking(self) -> str | None:
        return self.lacks

    def carry(self, notice: Notice, *, at: datetime) -> Receipt:
        self.heard.append(notice)
        return self.answers.pop(0) if self.answers else Receipt(200)


@pytest.fixture
def board(core: Core) -> Receiver:
    core.configure(notify={"board": HOOK})
    return Receiver()


def tell(core: Core, *names: str, **more: Any) -> None:
    with core.store.write() as tx:
        deeds = [Deed("ann", name, **more) for name in names or ("lock.set",)]
        records.write_audits(tx, deeds, at=tx.now())
    publish.publish(core.desk)


def round_of(core: Core, receiver: Receiver, name: str = "board") -> None:
    Courier(core.desk, core.store, name, lambda: receiver).round()


def states(core: Core, sink: str = "board") -> list[str]:
    found = sinks.listed(core.desk, state=None, sink=sink, before=None, limit=50)["items"]
    return [item["state"] for item in reversed(found)]


def come(core: Core, **changes: Any) -> None:
    """Let the waiting notices be due, or as the changes say."""
    with core.store.write() as tx:
        n = tx.tables.notices
        values = changes or {"next_try_at": tx.now()}
        tx.connection.execute(sa.update(n).where(n.c.done_at.is_(None)).values(values))


def deeds(core: Core, action: str) -> list[dict[str, Any]]:
    return [dict(row) for row in core.rows("audit") if row["action"] == action]


def test_a_sink_is_told_in_the_order_of_the_events(core: Core, board: Receiver):
    tell(core, "deploy.requested", "lock.set")
    tell(core, "lock.lifted")

    round_of(core, board)
    round_of(core, board)

    assert [notice.event.type for notice in board.heard] == [
        "deploy.requested",
        "lock.set",
        "lock.lifted",
    ]
    assert states(core) == ["delivered"] * 3
    assert listen.newest(core.desk) == 3


def test_a_sink_is_told_what_it_wants(core: Core, board: Receiver):
    shop = replace(HOOK, events=("lock.*",), applications=("shop",), environments=("staging",))
    core.configure(notify={"board": HOOK, "shop": shop})
    tell(core, "lock.set", "deploy.ended", application="shop", environment="staging")
    tell(core, "lock.set", application="mail", environment="staging")
    tell(core, "lock.lifted")

    receiver = Receiver()
    round_of(core, receiver, "shop")

    assert [notice.event.type for notice in receiver.heard] == ["lock.set", "lock.lifted"]
    assert states(core) == ["waiting"] * 4


def test_a_failing_sink_is_tried_later_and_others_are_told_meanwhile(core: Core, board: Receiver):
    """B153: no sink waits for another one."""
    core.configure(notify={"board": HOOK, "other": HOOK})
    tell(core)
    board.answers = [Receipt(500), Receipt(None, "no answer in 1 s")]
    other = Receiver()

    round_of(core, board)
    round_of(core, board)  # not yet due again
    round_of(core, other, "other")
    assert (len(board.heard), len(other.heard)) == (1, 1)

    come(core)
    round_of(core, board)
    come(core)
    round_of(core, board)
    assert [notice.tries for notice in board.heard] == [1, 2, 3]
    assert {notice.event.id for notice in board.heard} == {other.heard[0].event.id}
    assert (states(core), states(core, "other")) == (["delivered"], ["delivered"])
    assert deeds(core, "notice.failed") == []


def test_a_receiver_that_is_down_is_not_flooded(core: Core, board: Receiver):
    """However much waits: one try, then longer and longer rests, until it takes something."""
    tell(core, *["lock.set"] * 9)
    at = [0.0]
    courier = Courier(core.desk, core.store, "board", lambda: board)
    courier.clock = lambda: at[0]
    board.answers = [Receipt(503), Receipt(None, "no answer in 1 s")]
    tries = []
    for at[0] in (0.0, 4.9, 5.1, 19.9, 20.2):  # rests of 5 s and of 15 s
        courier.round()
        tries.append(len(board.heard))

    assert tries == [1, 1, 2, 2, 9]
    assert states(core).count("waiting") == 2


def test_the_wait_grows_and_a_receiver_may_ask_for_more(core: Core, board: Receiver):
    tell(core)
    waits = []
    for answer in (Receipt(503), Receipt(503), Receipt(429, retry_after="120")):
        board.answers = [answer]
        come(core)
        round_of(core, board)
        [row] = core.rows("notices")
        waits.append((row["next_try_at"] - core.at()).total_seconds())

    assert 3 < waits[0] <= 6
    assert 11 < waits[1] <= 18
    assert 118 < waits[2] <= 120


def test_what_is_missing_on_this_side_uses_up_no_try_and_no_time(core: Core, board: Receiver):
    tell(core, "lock.set", "lock.lifted")
    come(core, expires_at=long_ago())
    board.lacks = "secret://env/HOOK: the server's environment has no HOOK"
    round_of(core, board)
    publish.forget(core.desk)
    found = sinks.listed(core.desk, state="waiting", sink="board", before=None, limit=5)["items"]
    assert [(one["tries"], one["error"]) for one in found] == [(0, board.lacks)] * 2
    board.lacks = None
    round_of(core, board)
    assert states(core) == ["delivered", "delivered"]
    assert [notice.tries for notice in board.heard] == [1, 1]


def test_a_notice_nobody_takes_in_time_is_dead_and_on_record(core: Core, board: Receiver):
    """B153: bounded retries; the failure is audited."""
    tell(core, application="shop", deploy="d1")
    come(core, expires_at=core.at() + timedelta(seconds=2), next_try_at=core.at())
    board.answers = [Receipt(302)]

    round_of(core, board)
    publish.publish(core.desk)
    round_of(core, board)

    assert states(core) == ["dead"]
    [deed] = deeds(core, "notice.failed")
    assert (deed["deploy"], deed["application"]) == ("d1", "shop")
    assert deed["detail"]["error"] == "answered 302: a redirect is not followed"
    assert deed["detail"]["sink"] == "board"
    assert len(board.heard) == 1  # of the failure itself nobody is told by notice
    assert listen.newest(core.desk) == 2


def test_a_dead_notice_is_sent_again_on_a_persons_word(core: Core, board: Receiver):
    tell(core)
    come(core, expires_at=long_ago(), next_try_at=core.at())
    board.answers = [Receipt(500)]
    round_of(core, board)
    [dead] = sinks.listed(core.desk, state="dead", sink=None, before=None, limit=5)["items"]

    key = IdempotencyKey("k", "/api/v1/notices", "digest")
    for _ in range(2):
        again = sinks.resend(core.desk, dead["id"], reason="mended", caller=ADMIN, key=key)
        assert again["state"] == "waiting"
    round_of(core, board)

    assert states(core) == ["delivered"]
    assert board.heard[0].event.id == board.heard[1].event.id
    [deed] = deeds(core, "notice.resent")
    assert deed["detail"] | {"reason": "mended", "count": 1} == deed["detail"]
    delivered = sinks.resend(core.desk, dead["id"], caller=ADMIN)
    assert delivered["state"] == "delivered"  # only what is dead is sent again
    with pytest.raises(NotAllowed):
        sinks.resend(core.desk, dead["id"], caller=Caller("vic", everywhere("viewer")))
    with pytest.raises(NotFound):
        sinks.resend(core.desk, "nothing", caller=ADMIN)
    with pytest.raises(NotFound, match="there is no sink"):
        sinks.resend_all(core.desk, "nobody", caller=ADMIN)
    with pytest.raises(NotFound, match="there is no sink"):
        sinks.listed(core.desk, state=None, sink="nobody", before=None, limit=5)


def test_a_receiver_that_is_gone_is_told_nothing_more(core: Core, board: Receiver):
    tell(core, "lock.set", "lock.lifted")
    board.answers = [Receipt(410)]
    round_of(core, board)
    tell(core)  # also tells of `sink.off`
    round_of(core, board)

    assert len(board.heard) == 1
    assert states(core) == ["dead"] * 4
    [deed] = deeds(core, "sink.off")
    assert deed["detail"] == {
        "sink": "board",
        "reason": "answered 410: the receiver wants no more",
        "dropped": 1,
    }
    assert deeds(core, "notice.failed") == []
    [sink] = [one for one in sinks.shown(core.desk)["items"] if one["name"] == "board"]
    assert (sink["is_on"], sink["dead"], sink["waiting"]) == (False, 4, 0)
    assert "410" in sink["off_reason"]


def _by_resend(core: Core) -> None:
    [notice, *_] = sinks.listed(core.desk, state=None, sink="board", before=None, limit=1)["items"]
    sinks.resend(core.desk, notice["id"], caller=ADMIN)


@pytest.mark.parametrize(
    ("turn_on", "told"),
    [
        (_by_resend, 1),
        (lambda core: sinks.resend_all(core.desk, "board", caller=ADMIN), 2),
        (lambda core: sinks.turn_all_on(core.store, by="w1"), 0),
    ],
    ids=["resend", "resend_all", "reload"],
)
def test_a_sink_is_turned_on_again(
    core: Core, board: Receiver, turn_on: Callable[[Core], object], told: int
):
    tell(core, "lock.set", "lock.lifted")
    board.answers = [Receipt(410)]
    round_of(core, board)
    board.heard.clear()

    turn_on(core)
    round_of(core, board)

    assert len(board.heard) == told
    assert len(deeds(core, "sink.on")) == 1
    tell(core, "executor.forgotten")
    round_of(core, board)
    assert board.heard[-1].event.type == "executor.forgotten"


def test_a_process_that_dies_while_it_tells_loses_nothing(core: Core, board: Receiver):
    """Killed between sending and writing it down: told again, under the same id."""

    class Died(BaseException):
        pass

    class Dying(Receiver):
        def carry(self, notice: Notice, *, at: datetime) -> Receipt:
            super().carry(notice, at=at)
            raise Died

    tell(core)
    dying = Dying()
    with pytest.raises(Died):
        round_of(core, dying)
    round_of(core, board)
    assert board.heard == []  # it may still be on its way

    come(core)
    round_of(core, board)
    assert [notice.event.id for notice in board.heard] == [dying.heard[0].event.id]
    assert states(core) == ["delivered"]


def test_what_a_late_sender_says_is_not_believed(core: Core, board: Receiver):
    """Another process has tried meanwhile: the result of the newer try stands."""
    tell(core)
    with core.store.write() as tx:
        first = rows.take(tx, "board", until=long_ago())
    assert first is not None
    round_of(core, board)

    with core.store.write() as tx:
        result = rows.Result("dead", None, 500, "answered 500")
        assert not rows.settle(tx, first, result, at=tx.now())
    assert states(core) == ["delivered"]


@pytest.mark.postgres
def test_two_couriers_never_take_one_notice(postgres_core: Core):
    core = postgres_core
    core.configure(notify={"board": HOOK})
    tell(core, "lock.set", "lock.lifted")
    until = core.at() + timedelta(minutes=1)
    with core.store.write() as one, core.store.write() as two:
        first, second = rows.take(one, "board", until=until), rows.take(two, "board", until=until)

    assert first is not None
    assert second is not None
    assert first.id != second.id


def test_what_nobody_sends_ends(core: Core, board: Receiver):
    """Its sink is gone from the configuration."""
    tell(core)
    core.configure(notify={})
    come(core, expires_at=long_ago())
    publish.forget(core.desk)

    assert states(core) == ["dead"]


def test_an_event_stays_while_somebody_was_not_told(core: Core, board: Receiver):
    tell(core)
    tell(core)
    round_of(core, board)
    tell(core)
    tell(core)
    with core.store.write() as tx:
        e = tx.tables.events
        week = core.at() - timedelta(days=8)
        tx.connection.execute(sa.update(e).values(at=week))
    publish.forget(core.desk)
    assert [row["position"] for row in core.rows("events")] == [3, 4]

    with core.store.write() as tx:
        tx.connection.execute(sa.update(tx.tables.events).values(at=long_ago()))
    publish.forget(core.desk)
    assert [row["position"] for row in core.rows("events")] == [4]
    assert len(core.rows("notices")) == 1


def test_the_list_of_notices_has_pages(core: Core, board: Receiver):
    tell(core, *["lock.set"] * 5)
    first = sinks.listed(core.desk, state="waiting", sink="board", before=None, limit=3)
    rest = sinks.listed(core.desk, state="waiting", sink="board", before=first["next"], limit=3)

    positions = [item["event"]["position"] for item in (*first["items"], *rest["items"])]
    assert positions == [5, 4, 3, 2, 1]
    assert rest["next"] is None


def test_how_far_behind_a_sink_is_can_be_seen(core: Core, board: Receiver):
    assert [(one.lag_seconds, one.dead) for one in sinks.standings(core.desk)] == [(0.0, 0)]
    tell(core)
    come(core, created_at=core.at() - timedelta(seconds=90))

    [standing] = sinks.standings(core.desk)
    assert 89 < standing.lag_seconds < 100


def test_events_that_nobody_numbers_are_seen_too(core: Core, board: Receiver):
    """No process holds the lease: there is no notice yet, and still somebody waits."""
    tell(core)
    round_of(core, board)
    with core.store.write() as tx:
        at = tx.now() - timedelta(minutes=5)
        records.write_audit(tx, Deed("ann", "lock.set"), at=at)

    [standing] = sinks.standings(core.desk)
    assert 299 < standing.lag_seconds < 310
