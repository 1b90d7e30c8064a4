"""The page about notices is true: its code verifies what this server signs, its plugin hears."""

import base64
import re
import time
from typing import Any

from manent_server.observability import webhook
from manent_server.sdk import hooks
from tests.docs.pages import DOCS

PAGE = (DOCS / "how-to" / "be-told-what-happens.md").read_text()
SECRET = "whsec_" + base64.b64encode(b"x" * 32).decode()
OTHER = "whsec_" + base64.b64encode(b"y" * 32).decode()


def block(title: str) -> dict[str, Any]:
    """What a block of Python on the page defines."""
    found = re.search(rf'```python title="{title}"\n(.*?)^```', PAGE, re.DOTALL | re.MULTILINE)
    assert found
    names: dict[str, Any] = {}
    exec(found[1], names)  # noqa: S102 - the page itself
    return names


def signed(body: bytes, *secrets: str, age: int = 0) -> dict[str, str]:
    keys = [webhook.key(secret) for secret in secrets]
    at = int(time.time()) - age
    return webhook.headers(keys, message="e1", timestamp=at, content=body)


def test_the_code_of_the_page_knows_what_is_ours():
    verify = block("verify.py")["is_from_manent"]

    assert verify(SECRET, signed(b"{}", SECRET), b"{}")
    assert verify(SECRET, signed(b"{}", OTHER, SECRET), b"{}")
    assert not verify(SECRET, signed(b"{}", OTHER), b"{}")
    assert not verify(SECRET, signed(b"{}", SECRET), b"{ }")
    assert not verify(SECRET, signed(b"{}", SECRET, age=301), b"{}")


def test_the_plugin_of_the_page_has_the_hook():
    hook = block("listener.py")["deploy_event"]
    assert hasattr(hook, f"{hooks.PROJECT}_impl")
