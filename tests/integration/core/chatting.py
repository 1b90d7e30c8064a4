"""A core that asks for approvals in chats, with the door chats knock at."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from starlette.testclient import TestClient

from manent_server.api.app import create_app
from manent_server.domain.access import Caller
from manent_server.domain.approval import Rule
from manent_server.domain.chat import Knock
from manent_server.domain.secret import Secret
from manent_server.observability.quota import Quota
from manent_server.observability.redaction import Redactor
from manent_server.settings.values import Chat
from manent_server.sources.secrets import Secrets
from manent_server.usecases import authenticate, carry, link, publish, tokens
from manent_server.usecases.chats import Chats
from manent_server.usecases.deliver import Courier
from manent_server.usecases.hear import Ear
from manent_server.usecases.requests import TokenRequest
from tests.integration.core.approving import DAY, ask
from tests.rig import chats
from tests.rig.core import ADMIN, Core
from tests.rig.fake_chats import ChatServer

SECRETS = {
    "SLACK": chats.SLACK_SECRET,
    "OPS": chats.MATTERMOST_SECRET,
    "BRIDGE": chats.GENERIC_SECRET,
    "TOKEN": "xoxb-planted-hunter22",
}
RULE = Rule("release", quorum=2, expires=DAY, chat=("slack", "ops", "bridge"))


def settings(plugin: str, url: str | None, secret: str, **more: Any) -> Chat:
    made = Chat(
        plugin=plugin,  # type: ignore[arg-type]
        url=url,
        token=Secret("secret://env/TOKEN"),
        signing_secret=(Secret(f"secret://env/{secret}"),),
        channel="C1",
        team="T1",
        app="A1",
        from_networks=(),
        allow_networks=("127.0.0.0/8",),
        timeout=timedelta(seconds=20),
    )
    return replace(made, **more)


@dataclass
class Lounge:
    """A core, its door, and the servers of its chats."""

    core: Core
    client: TestClient
    servers: dict[str, ChatServer]
    ear: Ear
    carrier: Callable[[str], Any]
    people: dict[str, Caller] = field(default_factory=dict)

    def knock(self, chat: str, knock: Knock) -> Any:
        """Send a request to the door; its answer."""
        return self.client.post(f"/webhooks/{chat}", headers=knock.headers, content=knock.body)

    def tell(self, *names: str) -> None:
        """Tell the chats what has happened since."""
        publish.publish(self.core.desk)
        for name in names or ("slack", "ops", "bridge"):
            sink = f"chat:{name}"
            Courier(self.core.desk, self.core.store, sink, lambda s=sink: self.carrier(s)).round()

    def button(self, decision: str = "approve", number: int = 0) -> str:
        """What a button of the newest message in Slack stands for."""
        blocks = [*self.servers["slack"].messages.values()][-1]["blocks"]
        elements = [e for block in blocks for e in block.get("elements", ())]
        found = [e["value"] for e in elements if e["action_id"] == decision]
        return str(found[number])

    def seal(self, decision: str = "approve") -> str:
        """The same in Mattermost."""
        shown = [*self.servers["ops"].messages.values()][-1]["props"]["attachments"][0]
        found = [a for a in shown["actions"] if a["id"].startswith(decision)]
        return str(found[0]["integration"]["context"]["seal"])

    def press(self, value: str, user: str = "U1", **more: Any) -> Any:
        """Press a button in Slack."""
        action = more.pop("action", "approve")
        made = chats.slack_press(value, action, user={"id": user, "name": "x"}, **more)
        return self.knock("slack", chats.slack_knock(made, self.now))

    @property
    def now(self) -> datetime:
        """The database's clock."""
        return self.core.at()

    def token(self, name: str, role: str = "approver", **more: Any) -> Caller:
        """A person with a token of that role."""
        request = TokenRequest(name, role, kind="person", **more)
        text = tokens.create(self.core.desk, request, caller=ADMIN)["token"]
        return authenticate.authenticate(self.core.desk, text)

    def introduce(self, name: str, chat: str, account: str, role: str = "approver") -> Caller:
        """A person whose account that is."""
        caller = self.people.setdefault(name, self.token(name, role))
        code = link.give(self.core.store, chat, account)
        link.link(self.core.desk, code, caller=caller)
        return caller

    def audit(self, action: str) -> list[dict[str, Any]]:
        """Details of what is on record."""
        rows = [row for row in self.core.rows("audit") if row["action"] == action]
        return [dict(row["detail"]) for row in sorted(rows, key=lambda row: row["entry"])]

    def metric(self, line: str) -> bool:
        """Whether the metrics have this line."""
        return line in self.core.desk.metrics.render().decode()

    def state(self) -> tuple[int, list[str]]:
        """What no refused request may change."""
        votes = len(self.core.rows("votes"))
        return votes, sorted(row["state"] for row in self.core.rows("approvals"))


@contextmanager
def lounge(core: Core) -> Iterator[Lounge]:
    """Everything, with a Slack, a Mattermost and a bridge."""
    with ExitStack() as stack:
        servers = {name: stack.enter_context(ChatServer()) for name in ("slack", "ops", "bridge")}
        core.configure(
            chat={
                "slack": settings("slack", servers["slack"].url, "SLACK"),
                "ops": settings("mattermost", servers["ops"].url, "OPS"),
                "bridge": settings("generic", f"{servers['bridge'].url}/hook", "BRIDGE"),
            }
        )
        ask(core, RULE)
        secrets, redactor = Secrets(SECRETS, core.settings.path.parent), Redactor()
        app = create_app(core.desk, metrics=core.desk.metrics, redactor=redactor)
        ear = Ear(Chats(secrets, redactor), Quota())
        app.state.ear = ear
        client = TestClient(app, client=("192.0.2.1", 4711))
        yield Lounge(core, client, servers, ear, carry.carriers(core.desk, secrets, redactor))


def skew(core: Core, seconds: int) -> datetime:
    """An instant so far from the database's clock."""
    return core.at() + timedelta(seconds=seconds)


def text_of(message: Any) -> str:
    """All that a message shows."""
    return json.dumps(message, ensure_ascii=False, default=str)
