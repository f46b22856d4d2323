"""Tracing by OpenTelemetry: W3C trace context in, OTLP over HTTP out, as OTEL_* variables say."""

import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager

from opentelemetry import context, propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanContext, SpanKind

import sie_mcp
from sie_mcp.spans import Kind, Value

_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT, "server": SpanKind.SERVER}


class OtelTracer:
    """Makes spans of one provider."""

    def __init__(self, provider: trace.TracerProvider) -> None:
        self._tracer = provider.get_tracer("sie-mcp", sie_mcp.__version__)

    @contextmanager
    def span(
        self,
        name: str,
        kind: Kind,
        parent: Mapping[str, str] | None,
        links: Sequence[object],
        attributes: Mapping[str, Value],
    ) -> Iterator[object]:
        """Return a span that lasts as long as its block; an error is its class, not its text."""
        with self._tracer.start_as_current_span(
            name,
            context=None if parent is None else propagate.extract(parent),
            kind=_KINDS[kind],
            attributes=_named(attributes),
            links=[Link(one) for one in links if isinstance(one, SpanContext)],
            record_exception=False,
            set_status_on_exception=False,
        ) as made:
            try:
                yield made
            except BaseException as error:
                made.set_attribute("error.type", type(error).__qualname__)
                made.set_status(trace.StatusCode.ERROR)
                raise

    def past(
        self, name: str, start_s: float, end_s: float, attributes: Mapping[str, Value]
    ) -> None:
        """Add a span of what is over."""
        shift_ns = time.time_ns() - time.monotonic_ns()
        made = self._tracer.start_span(
            name, start_time=shift_ns + int(start_s * 1e9), attributes=_named(attributes)
        )
        made.end(shift_ns + int(end_s * 1e9))

    def annotate(self, attributes: Mapping[str, Value]) -> None:
        """Add to the span that lasts."""
        trace.get_current_span().set_attributes(_named(attributes))

    def inject(self, headers: MutableMapping[str, str]) -> None:
        """Write where a span belongs into headers."""
        propagate.inject(headers)

    @contextmanager
    def attached(self, headers: Mapping[str, str]) -> Iterator[object]:
        """Return a block whose spans belong where headers say."""
        token = context.attach(propagate.extract(headers))
        try:
            yield None
        finally:
            context.detach(token)

    def here(self) -> object | None:
        """Return what another span can be linked to."""
        found = trace.get_current_span().get_span_context()
        return found if found.is_valid else None


def start(service: str) -> OtelTracer:
    """Send spans where OTEL_EXPORTER_OTLP_* says, from a thread, a few seconds late."""
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
    named = Resource.create({SERVICE_NAME: service}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    # The MCP library makes its own spans with the one of the process.
    trace.set_tracer_provider(provider)
    return OtelTracer(provider)


def _named(attributes: Mapping[str, Value]) -> dict[str, Value]:
    return {f"sie.{name}": value for name, value in attributes.items()}
