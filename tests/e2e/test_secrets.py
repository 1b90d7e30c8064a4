"""A planted secret is in no stored or sent byte, whatever a hook does with it."""

import base64
import html
import json
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.conftest import StartRig
from tests.rig import leaky
from tests.rig.serve import Rig

pytestmark = pytest.mark.e2e

PLAIN = "s3cr3t+/pass w0rd<&\">'"
FILED = "f1led-" + "Zq7%" * 5 + "\u00fc"
# Built, not written: a scanner must not take it for a real one.
PEM = "\n".join(
    [
        "-----BEGIN " + "PRIVATE KEY-----",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7",
        "Kq2x0bVtq8v3o1kJx5Wm9yYzQ4d7rT6uE2hLpN8sAfGjXcVbMnOi",
        "-----END " + "PRIVATE KEY-----",
    ]
)
SECRETS = (PLAIN, FILED, PEM)
PYTHON = str(getattr(sys, "_base_executable", sys.executable))


def needles() -> Iterator[str]:
    """What a thief could use: whole values, lines of the key, and what is sure in base64."""
    lines = [line for line in PEM.splitlines() if "-----" not in line]
    for value in (PLAIN, FILED, *lines):
        raw = value.encode()
        yield from (value, raw.hex(), urllib.parse.quote(value), urllib.parse.quote_plus(value))
        yield from (urllib.parse.quote(value, safe=""), html.escape(value), repr(value)[1:-1])
        yield from (json.dumps(value)[1:-1], html.escape(value, quote=False))
        for offset in range(3):
            # Without the letters that neighbours have a share in.
            yield from encoded(raw, offset)
    for offset in range(3):
        yield from encoded(PEM.encode(), offset)


def encoded(raw: bytes, offset: int) -> Iterator[str]:
    """Both alphabets, without the letters that neighbours have a share in."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(b"\0" * offset + raw).decode()
        yield whole[offset + 1 : len(whole) - 4]


def found_in(text: str) -> list[str]:
    return [needle for needle in needles() if needle in text]


def everything_stored(rig: Rig) -> str:
    """Every row of every table, as text; on SQLite the bytes of its files."""
    if rig.database_url.startswith("sqlite"):
        files = sorted(rig.folder.glob("manent.db*"))
        return "\n".join(file.read_bytes().decode("latin-1") for file in files)
    with psycopg.connect(rig.database_url) as connection:
        tables = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        rows = []
        for table in tables:
            query = sql.SQL("SELECT t::text FROM {} AS t").format(sql.Identifier(*table))
            rows += [row[0] for row in connection.execute(query)]
    # Text inside of JSON inside of a row is escaped once more.
    return "\n".join(rows) + "\n" + "\n".join(rows).replace('""', '"').replace("\\\\", "\\")


def everything_answered(rig: Rig, deploy: str) -> str:
    paths = ["", "/steps", "/attempts", "/explain", "/logs?limit=500", "/logs?after=400&limit=500"]
    answers = [rig.http("GET", f"/deploys/{deploy}{path}") for path in paths]
    answers += [rig.http("GET", path) for path in ("/inventory", "/deploys", "/environments")]
    assert {answer.status_code for answer in answers} == {200}
    stream = rig.cli(["logs", "-f", deploy])
    shown = rig.cli(["show", deploy, "-o", "json"])
    texts = [answer.text for answer in answers]
    texts += [json.dumps(answer.json(), ensure_ascii=False) for answer in answers]
    return "\n".join([*texts, stream.stdout, stream.stderr, shown.stdout, shown.stderr])


@pytest.fixture
def leaking(start_rig: StartRig, database_url: str, tmp_path: Path) -> Rig:
    (tmp_path / "filed.txt").write_text(FILED + "\n")
    (tmp_path / "key.pem").write_text(PEM + "\n")
    named = ["secret://env/PLANTED", "secret://file/filed.txt", "secret://file/key.pem"]
    printing = (
        f"import os; print(os.environ['TOKEN']); raise SystemExit('bad ' + {'os'}.environ['TOKEN'])"
    )
    config: dict[str, Any] = {
        "plugins": {"external": {"leaky": {"command": [PYTHON, str(Path(leaky.__file__))]}}},
        "applications": {
            "leaks": {
                "plugin": "leaky",
                "options": {"secrets": named},
                "environments": {"staging": {"targets": {"host": {}}}},
            },
            "prints": {
                "plugin": "command",
                "options": {
                    "deploy": [PYTHON, "-c", printing],
                    "environment": {"TOKEN": "secret://env/PLANTED"},
                },
                "retry": {"attempts": 1},
                "environments": {"staging": {"targets": {"host": {}}}},
            },
            "short": {
                "plugin": "command",
                "options": {"deploy": ["true"], "environment": {"TOKEN": "secret://env/SHORT"}},
                "environments": {"staging": {"targets": {"host": {}}}},
            },
        },
    }
    return start_rig(database_url, config, environ={"PLANTED": PLAIN, "SHORT": "abc"})


def test_no_secret_is_stored_or_sent_in_any_form(leaking: Rig) -> None:
    """B106, B108: plain, base64, escaped; in output, error, outputs, checkpoint, server log."""
    good = leaking.deployed("good", application="leaks")
    assert good["outcome"] == "deployed"
    bad = leaking.deployed("fails", application="leaks")
    assert bad["outcome"] in ("failed", "rolled_back")
    printed = leaking.deployed("1", application="prints")
    assert printed["state"] == "ERROR"
    # The masked lines are there: nothing was hidden by being lost.
    lines = leaking.get(f"/deploys/{good['id']}/logs", limit=500)["items"]
    for beginning in ("out ", "err ", "log ", "cut "):
        begun = [line["text"] for line in lines if line["text"].startswith(beginning)]
        assert len(begun) >= 20, beginning
        assert all("***" in text for text in begun), begun
    assert "***" in bad["error"]["message"]
    for deploy in (good, bad, printed):
        assert found_in(everything_answered(leaking, deploy["id"])) == []
    assert found_in(leaking.logs()) == []
    assert found_in(leaking._http().get(f"{leaking.metrics_url()}/metrics").text) == []
    short = leaking.deployed("1", application="short")
    assert short["state"] == "ERROR"
    assert "secret://env/SHORT" in short["error"]["message"]
    assert "abc" not in json.dumps(short["error"])
    leaking.stop()
    assert found_in(everything_stored(leaking)) == []


def test_the_search_would_find_what_leaks() -> None:
    """The forms the plugin prints hold what is searched for."""
    for secret in (PLAIN, FILED):
        for form in leaky.forms(secret):
            unescaped = form.replace("\\\\", "\\").replace('\\"', '"')
            assert found_in(form) or found_in(unescaped) or "\\u00fc" in form, form


def test_a_wrong_password_of_the_database_is_not_shown(tmp_path: Path, sqlite_url: str) -> None:
    """B108: at start, with a trace or without."""
    rig = Rig(tmp_path, sqlite_url)
    rig.configure({"database": {"url": "postgresql://manent:${PASSWORD}@127.0.0.1:1/x"}})
    told = rig.server_cli(["migrate"], environ={"PASSWORD": PLAIN})
    assert told.returncode not in (0, 2)
    assert found_in(told.stdout + told.stderr) == []
