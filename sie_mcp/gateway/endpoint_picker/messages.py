"""Messages of Envoy's external processing, read into plain values and made of them. Pure.

By the endpoint picker protocol of the Gateway API Inference Extension, 1.0:
https://github.com/kubernetes-sigs/gateway-api-inference-extension (docs/proposals/004)
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response

from sie_mcp.gateway.endpoint_picker import protocol

DESTINATION = "x-gateway-destination-endpoint"
SUBSET, SERVED = f"{DESTINATION}-subset", f"{DESTINATION}-served"
BALANCING, HINT = "envoy.lb", "envoy.lb.subset_hint"
ADDRESS_ATTRIBUTE = "upstream.address"
# Envoy takes no larger part of a body that is streamed both ways.
MAX_PART_BYTES = 62_000


def headers_of(message: Any) -> Headers:
    """Read headers, those that HTTP/2 starts with a colon too."""
    pairs = [
        (one.key.lower().encode("latin-1"), one.raw_value or one.value.encode("latin-1", "replace"))
        for one in message.headers.headers
    ]
    return Headers(raw=pairs)


def among_of(message: Any) -> frozenset[str] | None:
    """Return the base URLs of the only workers that may be picked; None where all may."""
    fields = message.metadata_context.filter_metadata[HINT].fields
    if SUBSET not in fields:
        return None
    value = fields[SUBSET]
    if value.HasField("list_value"):
        hosts = [one.string_value for one in value.list_value.values]
    else:
        hosts = value.string_value.split(",")
    return frozenset(f"http://{host.strip()}" for host in hosts if host.strip())


def served_by(message: Any) -> str | None:
    """Return who answered as `ip:port`, where the proxy says so.

    In the metadata that the protocol has for it, or as Envoy's own attribute.
    """
    named = message.metadata_context.filter_metadata[BALANCING].fields
    if SERVED in named:
        return str(named[SERVED].string_value) or None
    for attributes in message.attributes.values():
        if ADDRESS_ATTRIBUTE in attributes.fields:
            return str(attributes.fields[ADDRESS_ATTRIBUTE].string_value) or None
    return None


def destination(hosts: Iterable[str]) -> tuple[str, Any]:
    """Return where a request goes, for the header and for the metadata: the same by the protocol.

    Args:
        hosts: `ip:port`, first choice first.
    """
    value = ",".join(hosts)
    metadata = protocol.Struct()
    metadata.update({BALANCING: {DESTINATION: value}})
    return value, metadata


def change(headers: Mapping[str, str], without: Iterable[str] = ()) -> Any:
    """Return a change of the request's headers, by which its route is found anew."""
    options = [
        protocol.HeaderValueOption(
            header=protocol.HeaderValue(key=name, raw_value=value.encode("latin-1")),
            append_action=protocol.OVERWRITE_IF_EXISTS_OR_ADD,
        )
        for name, value in headers.items()
    ]
    mutation = protocol.HeaderMutation(set_headers=options, remove_headers=list(without))
    return protocol.CommonResponse(header_mutation=mutation, clear_route_cache=True)


def go_on(part: str, common: Any = None, metadata: Any = None) -> Any:
    """Return the answer to a part of a request or an answer: it goes on, changed or not.

    Args:
        part: `request_headers`, `request_body`, `response_headers`, `response_body`.
        common: What changes.
        metadata: What the proxy's other filters are told.
    """
    kind = protocol.HeadersResponse if part.endswith("headers") else protocol.BodyResponse
    options = {} if metadata is None else {"dynamic_metadata": metadata}
    return protocol.ProcessingResponse(**{part: kind(response=common)}, **options)


def trailers_go_on(part: str) -> Any:
    """Return the answer to trailers: `request_trailers` or `response_trailers`."""
    return protocol.ProcessingResponse(**{part: protocol.TrailersResponse()})


def passed_on(part: str, content: bytes, *, is_end: bool) -> Iterator[Any]:
    """Yield a body as the proxy should send it on, where it is streamed both ways."""
    places = range(0, max(len(content), 1), MAX_PART_BYTES)
    for place in places:
        streamed = protocol.StreamedBodyResponse(
            body=content[place : place + MAX_PART_BYTES],
            end_of_stream=is_end and place == places[-1],
        )
        mutation = protocol.BodyMutation(streamed_response=streamed)
        yield go_on(part, protocol.CommonResponse(body_mutation=mutation))


def refusal(answer: Response, status: int) -> Any:
    """Return an answer that the proxy gives by itself."""
    kept = {name: value for name, value in answer.headers.items() if name != "content-length"}
    return protocol.ProcessingResponse(
        immediate_response=protocol.ImmediateResponse(
            status=protocol.HttpStatus(code=status),
            headers=change(kept).header_mutation,
            body=bytes(answer.body),
            details="sie_mcp_endpoint_picker",
        )
    )
