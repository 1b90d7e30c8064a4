"""What a process logs: one shape, every record redacted, no line forged."""

import contextvars
import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest

from manent_server.observability import log
from manent_server.observability.redaction import Redactor


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root, engine = logging.getLogger(), logging.getLogger("dbos")
    before = (root.handlers, root.level, engine.handlers, engine.propagate)
    yield
    root.handlers, root.level, engine.handlers, engine.propagate = before


def configured(form: str, *secrets: str, level: str = "info") -> io.StringIO:
    out = io.StringIO()
    log.configure(level, form, Redactor(secrets), stream=out)
    return out


def fail(what: object) -> None:
    raise RuntimeError(what)


def test_a_record_is_one_json_object() -> None:
    out = configured("json")

    logging.getLogger("manent.test").info(
        "deploy %s ended", "d1", extra=log.fields(state="SUCCESS")
    )

    record = json.loads(out.getvalue())
    assert record["event"] == "deploy d1 ended"
    assert record["level"] == "info"
    assert record["logger"] == "manent.test"
    assert record["state"] == "SUCCESS"
    assert record["at"].endswith("Z")


def test_a_library_is_written_the_same_way() -> None:
    out = configured("auto")

    logging.getLogger("some.library").warning("lost %s", "it")

    assert json.loads(out.getvalue())["event"] == "lost it"


def test_secrets_are_masked_in_fields_events_and_tracebacks() -> None:
    """B108: masked everywhere, stack traces included."""
    out = configured("json", "hunter22")

    try:
        fail({"password": "hunter22"})
    except RuntimeError:
        given = log.fields(given=["hunter22", object])
        logging.getLogger().exception("failed with hunter22", extra=given)
        logging.getLogger("library").exception("failed with %s", "hunter22")

    assert "hunter22" not in out.getvalue()
    records = [json.loads(line) for line in out.getvalue().splitlines()]
    assert all("RuntimeError" in record["exception"] for record in records)


def test_a_traceback_shows_no_local_variables() -> None:
    """B108: what a variable holds is nobody's business."""
    out = configured("text")
    unknown_secret = "-".join(["nobody", "told", "the", "redactor"])

    try:
        unknown_secret.index("absent")
    except ValueError:
        logging.getLogger().exception("failed")

    assert "ValueError" in out.getvalue()
    assert unknown_secret not in out.getvalue()


@pytest.mark.parametrize("form", ["json", "text"])
def test_nobody_who_is_quoted_writes_a_line_of_their_own(form: str) -> None:
    out = configured(form)

    named = log.fields(path="/x\r\n\x1b[2Jy\u2028\ud800z")
    logging.getLogger().info("asked for a\nfake line", extra=named)

    assert out.getvalue().count("\n") == 1
    assert out.getvalue().isascii()
    assert not {"\r", "\x1b"} & set(out.getvalue())


def test_records_below_the_level_are_left_out() -> None:
    out = configured("json", level="warning")

    logging.getLogger().info("left out")
    logging.getLogger("library").info("left out")
    logging.getLogger().warning("kept")

    assert len(out.getvalue().splitlines()) == 1


def test_the_engine_writes_no_flood_during_an_outage() -> None:
    """The engine repeats itself several times a second while its database is away."""
    out = configured("json", "hunter22")

    for number in range(1000):
        logging.getLogger("dbos").warning("database away with hunter22, try %s", number)
        logging.getLogger("sqlalchemy.pool.impl").error("invalidating %s", number)

    assert len(out.getvalue().splitlines()) == 6
    assert "hunter22" not in out.getvalue()


def test_what_is_bound_stands_in_every_record_until_its_end() -> None:
    out = configured("json")
    told = logging.getLogger("manent.test")

    with log.bound(deploy="d1", epoch=7):
        with log.bound(step="deploy:web"):
            told.info("one", extra=log.fields(attempt=2))
            thread = threading.Thread(
                target=contextvars.copy_context().run, args=(told.info, "two")
            )
            thread.start()
            thread.join()
        told.info("three")
    told.info("four")

    one, two, three, four = (json.loads(line) for line in out.getvalue().splitlines())
    known = {"deploy": "d1", "epoch": 7, "step": "deploy:web"}
    assert one.items() >= {**known, "attempt": 2}.items()
    assert two.items() >= known.items()
    assert three["deploy"] == "d1"
    assert "step" not in three
    assert "deploy" not in four


def test_what_is_bound_is_redacted_too() -> None:
    out = configured("json", "hunter2222")

    with log.bound(request_id="hunter2222"):
        logging.getLogger("manent.test").info("x")

    assert "hunter2222" not in out.getvalue()
