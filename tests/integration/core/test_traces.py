"""One trace from the request that asked for a deploy to the hook that performs it."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from manent_server.api.app import create_app
from manent_server.api.calls import Calls
from manent_server.observability import trace
from manent_server.observability.trace import Tracer
from tests.integration.core.crew import Hand
from tests.rig.core import ADMIN, Core

pytest.importorskip("opentelemetry.sdk", reason="traces need pip install 'manent[otel]'")
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

ABOVE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def sent() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(sent: InMemorySpanExporter) -> Tracer:
    return Tracer(trace.provider(SimpleSpanProcessor(sent)))


def asked(core: Core, tracer: Tracer, headers: dict[str, str]) -> str:
    app = create_app(core.desk, calls=Calls(authenticate=lambda *_, **__: ADMIN))
    app.state.tracer = tracer
    body = {"application": "shop", "environment": "staging", "version": "1"}
    with TestClient(app, headers={"Authorization": "Bearer x", **headers}) as client:
        assert client.get("/livez").status_code == 200
        answer = client.post("/api/v1/deploys", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def parts(span: ReadableSpan) -> tuple[int, int, int | None]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id, span.parent and span.parent.span_id


@pytest.mark.parametrize("given", [{}, {"traceparent": ABOVE}], ids=["new", "of the caller"])
def test_a_request_its_deploy_and_each_attempt_are_one_trace(
    core: Core, tmp_path: Path, tracer: Tracer, sent: InMemorySpanExporter, given: dict[str, str]
) -> None:
    hand = Hand(core, tmp_path, core.worker(), tracer=tracer)
    deploy = asked(core, tracer, given)

    hand.run(deploy)

    spans: dict[str, Any] = {span.name: span for span in sent.get_finished_spans()}
    assert set(spans) == {"POST /api/v1/deploys", "deploy", "deploy:web", "verify:web"}
    request, dispatch = spans["POST /api/v1/deploys"], spans["deploy"]
    trace_id, request_id, above = parts(request)
    assert above == (int(ABOVE.split("-")[2], 16) if given else None)
    assert trace_id == int(ABOVE.split("-")[1], 16) or not given
    assert parts(dispatch)[::2] == (trace_id, request_id)
    attempt = spans["deploy:web"]
    assert parts(attempt)[::2] == (trace_id, parts(dispatch)[1])
    assert dict(attempt.attributes)["manent.result"] == "succeeded"
    assert dict(dispatch.attributes)["manent.deploy"] == deploy
    told = hand.runner.ran[0].context["traceparent"]
    assert told.split("-")[1:3] == [f"{trace_id:032x}", f"{parts(attempt)[1]:016x}"]


def test_a_malformed_place_begins_a_trace_of_its_own(
    tracer: Tracer, sent: InMemorySpanExporter
) -> None:
    with tracer.span("one", parent="00-zz-1-01"):
        pass

    (span,) = sent.get_finished_spans()
    assert span.parent is None


def test_what_an_exception_says_is_not_sent(tracer: Tracer, sent: InMemorySpanExporter) -> None:
    with pytest.raises(RuntimeError), tracer.span("one"):
        raise RuntimeError("hunter22")

    (span,) = sent.get_finished_spans()
    assert "hunter22" not in span.to_json()


def test_without_a_tracer_nothing_is_stored_and_no_hook_is_told(core: Core, tmp_path: Path) -> None:
    hand = Hand(core, tmp_path, core.worker())
    deploy = asked(core, Tracer(), {"traceparent": ABOVE})

    hand.run(deploy)

    assert "traceparent" not in hand.runner.ran[0].context
    (row,) = core.rows("deploys")
    assert row["trace"] is None


@pytest.mark.parametrize(
    ("environ", "is_on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_traces_are_off_until_somebody_says_where_to(
    environ: dict[str, str], *, is_on: bool
) -> None:
    made = trace.tracer(environ)
    assert made.is_on is is_on
    made.close()
