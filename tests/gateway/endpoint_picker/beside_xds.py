"""Our few messages against the whole of Envoy's, loaded into one process: same fields, same bytes.

Run where xds-protos is installed; says nothing where all is well.
"""

from typing import Any

from envoy.config.core.v3 import base_pb2
from envoy.extensions.filters.http.ext_proc.v3 import processing_mode_pb2
from envoy.service.ext_proc.v3 import external_processor_pb2 as theirs
from envoy.type.v3 import http_status_pb2
from google.protobuf import json_format, unknown_fields

from sie_mcp.gateway.endpoint_picker import protocol
from tests.gateway.endpoint_picker.samples import answers, requests

THEIRS = (theirs, base_pb2, http_status_pb2)


def check_fields() -> None:
    by_name = {
        message.full_name: message
        for module in THEIRS
        for message in module.DESCRIPTOR.message_types_by_name.values()
    }
    asked = [protocol.ProcessingRequest.DESCRIPTOR, protocol.ProcessingResponse.DESCRIPTOR]
    seen = set()
    while asked:
        ours = asked.pop()
        if ours.full_name in seen or ours.full_name not in by_name:
            assert ours.full_name in seen or ours.file.name == "google/protobuf/struct.proto"
            continue
        seen.add(ours.full_name)
        for field in ours.fields:
            other = by_name[ours.full_name].fields_by_number[field.number]
            assert facts(field) == facts(other), (field.full_name, facts(field), facts(other))
            if field.message_type is not None:
                entry = field.message_type
                is_map = entry.GetOptions().map_entry
                asked.append(entry.fields_by_name["value"].message_type if is_map else entry)
    assert len(seen) == sum(map(len, protocol._MESSAGES.values()))


def facts(field: Any) -> tuple[Any, ...]:
    """Return what decides how a field is written; enumerations are as whole numbers are."""
    kind = field.TYPE_INT32 if field.type == field.TYPE_ENUM else field.type
    oneof = field.containing_oneof and field.containing_oneof.name
    message = field.message_type and field.message_type.full_name
    return field.name, field.number, kind, field.is_repeated, oneof, message


def check_bytes(ours: Any, other: Any) -> None:
    """Hold one message to theirs: read from ours, and made by them from its values."""
    read = other.FromString(ours.SerializeToString())
    assert not len(unknown_fields.UnknownFieldSet(read))
    values = json_format.MessageToDict(ours, preserving_proto_field_name=True)
    made = json_format.ParseDict(values, other())
    assert read == made
    for one in (read, made):
        content = one.SerializeToString(deterministic=True)
        assert content == ours.SerializeToString(deterministic=True)
        assert type(ours).FromString(content) == ours


def check_numbers() -> None:
    modes = processing_mode_pb2.ProcessingMode.BodySendMode
    assert all(modes.Value(one.name) == one for one in protocol.BodySendMode)
    action = base_pb2.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    assert action == protocol.OVERWRITE_IF_EXISTS_OR_ADD
    service = theirs.DESCRIPTOR.services_by_name["ExternalProcessor"]
    assert service.full_name == protocol.EXT_PROC
    assert [one.name for one in service.methods] == ["Process"]


check_fields()
check_numbers()
for message in requests().values():
    check_bytes(message, theirs.ProcessingRequest)
for message in answers().values():
    check_bytes(message, theirs.ProcessingResponse)
