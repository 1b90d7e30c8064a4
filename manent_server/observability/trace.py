"""Traces by OpenTelemetry, where it is installed and told where to send: off otherwise.

A span's place in its trace is a text, the header `traceparent` of the W3C: so it passes from a
request to the row of a deploy, from there to the worker, and on to the hook.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

_log = logging.getLogger(__name__)
_WHERE: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_TRACEPARENT: Final = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_UNNAMED: Final = "unknown_service"
_PATIENCE: Final = 2.0
_place: ContextVar[str | None] = ContextVar("manent_traceparent", default=None)

Note = Callable[..., None]
"""Gives a span attributes: `note(result="succeeded")`; `name` changes its name."""


def current() -> str | None:
    """The `traceparent` of the span this thread is in; None while nothing is traced."""
    return _place.get()


class Tracer:
    """Makes spans; without a provider it does nothing.

    Args:
        provider: Whose spans.
    """

    def __init__(self, provider: "TracerProvider | None" = None) -> None:
        self._provider = provider

    @property
    def is_on(self) -> bool:
        """Whether anything is traced."""
        return self._provider is not None

    @contextmanager
    def span(self, name: str, *, parent: str | None = None, **attributes: Any) -> Iterator[Note]:
        """A span until the end; `parent` is a `traceparent`, by default that of this thread."""
        if self._provider is None:
            yield _nothing
            return
        above = _place.get() if parent is None else parent
        with _open(self._provider, name, above, attributes) as (note, place):
            token = _place.set(place)
            try:
                yield note
            finally:
                _place.reset(token)

    def close(self) -> None:
        """Send what is left; a receiver that does not answer is not waited for."""
        if self._provider is None:
            return
        ending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(_PATIENCE)


def tracer(environ: Mapping[str, str]) -> Tracer:
    """A tracer that sends where OTEL_EXPORTER_OTLP_ENDPOINT says; it does nothing without that."""
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    is_off = is_off or environ.get("OTEL_TRACES_EXPORTER", "otlp") == "none"
    if is_off or not any(environ.get(name) for name in _WHERE):
        return Tracer()
    try:
        # Half a second to load: only where it is asked for.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an extra
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - an extra
    except ImportError:
        _log.warning("OTEL_EXPORTER_OTLP_ENDPOINT is set but manent[otel] is not installed")
        return Tracer()
    return Tracer(provider(BatchSpanProcessor(OTLPSpanExporter())))


def provider(processor: "SpanProcessor") -> "TracerProvider":
    """Spans of this service for one processor; the variables of OTEL_ hold."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - an extra

    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, _UNNAMED)).startswith(_UNNAMED):
        resource = resource.merge(Resource({SERVICE_NAME: "manent"}))
    made = TracerProvider(resource=resource, shutdown_on_exit=False)
    made.add_span_processor(processor)
    return made


@contextmanager
def _open(
    provider: "TracerProvider", name: str, above: str | None, attributes: Mapping[str, Any]
) -> Iterator[tuple[Note, str | None]]:
    from opentelemetry.context import Context  # noqa: PLC0415 - an extra
    from opentelemetry.trace.propagation import set_span_in_context  # noqa: PLC0415 - an extra
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - an extra
        TraceContextTextMapPropagator,
    )

    words = TraceContextTextMapPropagator()
    known = above if above is not None and _TRACEPARENT.fullmatch(above) else None
    # A context of its own: what a caller sends in other headers has no say here.
    context = words.extract({"traceparent": known}, Context()) if known else Context()
    tracer = provider.get_tracer("manent")
    # The words of an exception may hold anything: they are for the log, where they are redacted.
    with tracer.start_as_current_span(
        name,
        context=context,
        attributes=_named(attributes),
        record_exception=False,
        set_status_on_exception=False,
    ) as span:

        def note(*, name: str | None = None, **more: Any) -> None:
            if name is not None:
                span.update_name(name)
            span.set_attributes(_named(more))

        carrier: dict[str, str] = {}
        words.inject(carrier, set_span_in_context(span))
        yield note, carrier.get("traceparent")


def _named(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {f"manent.{key}": value for key, value in attributes.items() if value is not None}


def _nothing(**_: Any) -> None:
    """What notes nothing."""
