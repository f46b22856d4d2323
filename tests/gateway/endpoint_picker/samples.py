"""Messages with every field that the picker knows, and how they look on the wire."""

from typing import Any

from sie_mcp.gateway.endpoint_picker import protocol


def requests() -> dict[str, Any]:
    """Return what proxies send, a part each."""
    headers = protocol.HttpHeaders(
        headers=protocol.HeaderMap(
            headers=[
                protocol.HeaderValue(key=":path", raw_value=b"/v1/encode/m"),
                protocol.HeaderValue(key="x-old", value="text"),
            ]
        ),
        end_of_stream=True,
    )
    head = protocol.ProcessingRequest(
        request_headers=headers,
        protocol_config=protocol.ProtocolConfiguration(
            request_body_mode=protocol.BodySendMode.FULL_DUPLEX_STREAMED,
            response_body_mode=protocol.BodySendMode.BUFFERED,
        ),
    )
    head.metadata_context.filter_metadata["envoy.lb"].update({"hosts": ["a", "b"]})
    answered = protocol.ProcessingRequest(response_headers=headers)
    answered.attributes["envoy.filters"].update({"upstream.address": "10.0.0.1:9000"})
    body = protocol.HttpBody(body=b"\x00\xffpart", end_of_stream=True)
    trailers = protocol.ProcessingRequest()
    trailers.request_trailers.trailers.headers.add(key="grpc-status", raw_value=b"0")
    last = protocol.ProcessingRequest()
    last.response_trailers.SetInParent()
    return {
        "head": head,
        "answered": answered,
        "body": protocol.ProcessingRequest(request_body=body),
        "answered body": protocol.ProcessingRequest(response_body=body),
        "trailers": trailers,
        "last": last,
    }


def answers() -> dict[str, Any]:
    """Return what the picker answers, a kind each."""
    option = protocol.HeaderValueOption(
        header=protocol.HeaderValue(key="x-to", raw_value=b"10.0.0.1:9000"),
        append_action=protocol.OVERWRITE_IF_EXISTS_OR_ADD,
    )
    mutation = protocol.HeaderMutation(set_headers=[option], remove_headers=["cookie"])
    change = protocol.CommonResponse(header_mutation=mutation, clear_route_cache=True)
    streamed = protocol.StreamedBodyResponse(body=b"part", end_of_stream=True)
    part = protocol.CommonResponse(body_mutation=protocol.BodyMutation(streamed_response=streamed))
    metadata = protocol.Struct()
    metadata.update({"envoy.lb": {"to": "10.0.0.1:9000"}})
    changed = protocol.HeadersResponse(response=change)
    passed = protocol.BodyResponse(response=part)
    trailers = protocol.TrailersResponse(header_mutation=mutation)
    refused = protocol.ImmediateResponse(
        status=protocol.HttpStatus(code=503), headers=mutation, body=b"{}", details="picker"
    )
    made = {
        "picked": {"request_headers": changed, "dynamic_metadata": metadata},
        "goes on": {"response_headers": changed},
        "passed on": {"request_body": passed},
        "passed back": {"response_body": passed},
        "trailers": {"request_trailers": trailers},
        "last": {"response_trailers": trailers},
        "refused": {"immediate_response": refused},
    }
    return {name: protocol.ProcessingResponse(**fields) for name, fields in made.items()}
