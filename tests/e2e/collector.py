"""A small OTLP collector: what two processes sent of one trace."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


@dataclass
class Collector:
    """Keeps every span."""

    spans: list[tuple[str, Span]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/traces", self._take, methods=["POST"])])

    def named(self, name: str) -> Iterator[Span]:
        return (span for _, span in self.spans if span.name == name)

    async def _take(self, request: Request) -> Response:
        self.bodies.append(await request.body())
        found = ExportTraceServiceRequest.FromString(self.bodies[-1])
        for resource in found.resource_spans:
            (service,) = [
                one.value.string_value
                for one in resource.resource.attributes
                if one.key == "service.name"
            ]
            self.spans += [
                (service, span) for scope in resource.scope_spans for span in scope.spans
            ]
        return Response(media_type="application/x-protobuf")


def attributes(span: Span) -> dict[str, str | int]:
    """Return a span's own attributes."""
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}
