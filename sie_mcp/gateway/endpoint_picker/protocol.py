"""Envoy's external processing on the wire: of its messages those fields that the picker uses.

Names, numbers and types are those of Envoy's API, version 3
(https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/ext_proc/v3/external_processor.proto);
what else a proxy sends is kept unread. The pool of descriptors is the picker's own, so that a whole
copy of Envoy's API may be loaded beside it. Enumerations are whole numbers here: the same bytes.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2

EXT_PROC = "envoy.service.ext_proc.v3.ExternalProcessor"
OVERWRITE_IF_EXISTS_OR_ADD = 2


class BodySendMode(IntEnum):
    """How a proxy sends bodies."""

    NONE = 0
    STREAMED = 1
    BUFFERED = 2
    BUFFERED_PARTIAL = 3
    FULL_DUPLEX_STREAMED = 4


_CORE, _TYPE, _SERVICE = "envoy.config.core.v3", "envoy.type.v3", "envoy.service.ext_proc.v3"
_STRUCT = "google.protobuf.Struct"

# By package and message, a field a line: `[repeated | in a oneof:] type name number`.
_MESSAGES = {
    _CORE: {
        "HeaderValue": "string key 1, string value 2, bytes raw_value 3",
        "HeaderMap": "repeated HeaderValue headers 1",
        "HeaderValueOption": "HeaderValue header 1, int32 append_action 3",
        "Metadata": "map filter_metadata 1",
    },
    _TYPE: {"HttpStatus": "int32 code 1"},
    _SERVICE: {
        "ProtocolConfiguration": "int32 request_body_mode 1, int32 response_body_mode 2",
        "HttpHeaders": f"{_CORE}.HeaderMap headers 1, bool end_of_stream 3",
        "HttpBody": "bytes body 1, bool end_of_stream 2",
        "HttpTrailers": f"{_CORE}.HeaderMap trailers 1",
        "ProcessingRequest": "request:HttpHeaders request_headers 2, "
        "request:HttpHeaders response_headers 3, request:HttpBody request_body 4, "
        "request:HttpBody response_body 5, request:HttpTrailers request_trailers 6, "
        f"request:HttpTrailers response_trailers 7, {_CORE}.Metadata metadata_context 8, "
        "map attributes 9, ProtocolConfiguration protocol_config 11",
        "HeaderMutation": f"repeated {_CORE}.HeaderValueOption set_headers 1, "
        "repeated string remove_headers 2",
        "StreamedBodyResponse": "bytes body 1, bool end_of_stream 2",
        "BodyMutation": "mutation:StreamedBodyResponse streamed_response 3",
        "CommonResponse": "HeaderMutation header_mutation 2, BodyMutation body_mutation 3, "
        "bool clear_route_cache 5",
        "HeadersResponse": "CommonResponse response 1",
        "BodyResponse": "CommonResponse response 1",
        "TrailersResponse": "HeaderMutation header_mutation 1",
        "ImmediateResponse": f"{_TYPE}.HttpStatus status 1, HeaderMutation headers 2, "
        "bytes body 3, string details 5",
        "ProcessingResponse": "response:HeadersResponse request_headers 1, "
        "response:HeadersResponse response_headers 2, response:BodyResponse request_body 3, "
        "response:BodyResponse response_body 4, response:TrailersResponse request_trailers 5, "
        "response:TrailersResponse response_trailers 6, "
        f"response:ImmediateResponse immediate_response 7, {_STRUCT} dynamic_metadata 8",
    },
}
_Message = descriptor_pb2.DescriptorProto
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
}


def handlers(process: Any) -> Any:
    """Return the service's one method for a server of grpc.aio.

    Args:
        process: Takes requests as they come and the call's context; yields answers.
    """
    handler = grpc.stream_stream_rpc_method_handler(
        process,
        request_deserializer=ProcessingRequest.FromString,
        response_serializer=ProcessingResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(EXT_PROC, {"Process": handler})


def process_of(channel: Any) -> Any:
    """Return the service's one method as a proxy calls it."""
    return channel.stream_stream(
        f"/{EXT_PROC}/Process",
        request_serializer=ProcessingRequest.SerializeToString,
        response_deserializer=ProcessingResponse.FromString,
    )


def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    known = [struct_pb2.DESCRIPTOR.name]
    for package, messages in _MESSAGES.items():
        file = descriptor_pb2.FileDescriptorProto(
            name=f"sie_mcp/{package}", package=package, syntax="proto3", dependency=known
        )
        file.message_type.extend(
            _message(package, name, fields) for name, fields in messages.items()
        )
        pool.Add(file)
        known.append(file.name)
    return pool


def _message(package: str, name: str, fields: str) -> _Message:
    message = _Message(name=name)
    for kind, field, number in _read(fields):
        oneof, _, kind = kind.rpartition(":")
        made = _field(package, kind.removeprefix("repeated "), field, number)
        if kind == "map":
            entry = _map_entry(field)
            message.nested_type.append(entry)
            made.type_name = f".{package}.{name}.{entry.name}"
        if kind == "map" or kind.startswith("repeated "):
            made.label = _Field.LABEL_REPEATED
        if oneof:
            if not message.oneof_decl:
                message.oneof_decl.add(name=oneof)
            made.oneof_index = 0
        message.field.append(made)
    return message


def _read(fields: str) -> Iterator[tuple[str, str, int]]:
    for one in fields.split(", "):
        kind, field, number = one.rsplit(" ", 2)
        yield kind, field, int(number)


def _field(package: str, kind: str, name: str, number: int) -> _Field:
    made = _Field(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if kind in _SCALARS:
        made.type = _SCALARS[kind]
        return made
    made.type = _Field.TYPE_MESSAGE
    made.type_name = f".{kind}" if "." in kind else f".{package}.{kind}"
    return made


def _map_entry(field: str) -> _Message:
    """Return what a map from names to structures is made of."""
    entry = _Message(name=f"{field.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    entry.field.append(_field("", "string", "key", 1))
    entry.field.append(_field("", _STRUCT, "value", 2))
    return entry


_POOL = _pool()


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


Struct = _class(_STRUCT)
HeaderMap = _class(f"{_CORE}.HeaderMap")
HeaderValue = _class(f"{_CORE}.HeaderValue")
HeaderValueOption = _class(f"{_CORE}.HeaderValueOption")
HttpStatus = _class(f"{_TYPE}.HttpStatus")
BodyMutation = _class(f"{_SERVICE}.BodyMutation")
BodyResponse = _class(f"{_SERVICE}.BodyResponse")
CommonResponse = _class(f"{_SERVICE}.CommonResponse")
HeaderMutation = _class(f"{_SERVICE}.HeaderMutation")
HeadersResponse = _class(f"{_SERVICE}.HeadersResponse")
HttpBody = _class(f"{_SERVICE}.HttpBody")
HttpHeaders = _class(f"{_SERVICE}.HttpHeaders")
ImmediateResponse = _class(f"{_SERVICE}.ImmediateResponse")
ProcessingRequest = _class(f"{_SERVICE}.ProcessingRequest")
ProcessingResponse = _class(f"{_SERVICE}.ProcessingResponse")
ProtocolConfiguration = _class(f"{_SERVICE}.ProtocolConfiguration")
StreamedBodyResponse = _class(f"{_SERVICE}.StreamedBodyResponse")
TrailersResponse = _class(f"{_SERVICE}.TrailersResponse")
