"""The pages about approvals in chats: what they say to write is read, and means what they say."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from manent_server import settings as configuration
from manent_server.domain.chat import Ballot
from manent_server.observability.chats.generic import Generic, _body
from manent_server.observability.webhook import key
from tests.docs.pages import DOCS
from tests.rig import chats
from tests.unit.domain.test_chat import CARD

PAGES = sorted((DOCS / "how-to").glob("approve-in-*.md"))


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_configuration_of_a_page_can_be_loaded(page: Path, tmp_path: Path):
    file = tmp_path / "manent.yml"
    file.write_text("".join(blocks(page, "yaml")))
    found = configuration.load(file, environ={}, plugins=[])
    [(name, chat)] = found.chat.items()
    assert chat.plugin in ("slack", "mattermost", "matrix", "generic")
    if chat.plugin != "matrix":
        assert f"/webhooks/{name}" in page.read_text()


def test_a_bridge_is_sent_and_sends_what_its_page_says():
    told, sent = map(json.loads, blocks(DOCS / "how-to/approve-in-any-chat.md", "json"))
    assert told.keys() == _body(CARD, is_new=True).keys()
    assert told["approvals"][0].keys() == _body(CARD, is_new=True)["approvals"][0].keys()
    chat = Generic(None, None, [key(chats.GENERIC_SECRET)])  # type: ignore[arg-type]
    read = chat.read(chats.generic_knock(sent, datetime.now(UTC)))  # noqa: TID251 - a bridge's
    assert isinstance(read, tuple)
    assert read[1].ballot == Ballot("8c1d0e", "5e88ab", "reject")
