"""What a newcomer does: the README's three commands, then the tutorial."""

import pytest

from tests.docs.pages import DOCS
from tests.rig.tutorial import Reader, commands

README = DOCS.parent / "README.md"
TUTORIAL = DOCS / "tutorials" / "first-deploy.md"

pytestmark = pytest.mark.e2e


@pytest.fixture
def reader(tmp_path):
    with Reader(tmp_path) as somebody:
        yield somebody


def test_three_commands_lead_to_a_deploy(reader):
    init, serve, deploy = commands(README.read_text())
    reader.type(init)
    reader.type(serve)
    said = reader.type(deploy)
    assert "hello from staging, now at v1" in said
    assert "SUCCESS" in said


def test_the_tutorial_is_true(reader):
    reader.follow(TUTORIAL.read_text())
