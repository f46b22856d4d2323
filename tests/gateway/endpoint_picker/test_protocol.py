"""The picker's own definition of Envoy's messages: the bytes that Envoy reads and sends."""

import os
import subprocess
from pathlib import Path

import pytest
from google.protobuf import descriptor_pool

from sie_mcp.gateway.endpoint_picker import protocol
from tests.chart.rendering import FETCHED, ROOT
from tests.gateway.endpoint_picker.samples import answers, requests

# Written by xds-protos 1.85, which is made of Envoy's own files.
REQUESTS = {
    "head": "122a0a260a150a053a706174681a0c2f76312f656e636f64652f6d0a0d0a05782d6f6c64120474657874"
    "180142250a230a08656e766f792e6c6212170a150a05686f737473120c320a0a031a01610a031a01625a04080410"
    "02",
    "answered": "1a2a0a260a150a053a706174681a0c2f76312f656e636f64652f6d0a0d0a05782d6f6c6412047465"
    "787418014a360a0d656e766f792e66696c7465727312250a230a10757073747265616d2e61646472657373120f1a"
    "0d31302e302e302e313a39303030",
    "body": "220a0a0600ff706172741001",
    "answered body": "2a0a0a0600ff706172741001",
    "trailers": "32140a120a100a0b677270632d7374617475731a0130",
    "last": "3a00",
}
_CHANGE = "12230a190a150a04782d746f1a0d31302e302e302e313a3930303018021206636f6f6b6965"
_TRAILERS = "250a230a190a150a04782d746f1a0d31302e302e302e313a3930303018021206636f6f6b6965"
ANSWERS = {
    "picked": f"0a290a27{_CHANGE}280142270a250a08656e766f792e6c6212192a170a150a"
    "02746f120f1a0d31302e302e302e313a39303030",
    "goes on": f"12290a27{_CHANGE}2801",
    "passed on": "1a0e0a0c1a0a1a080a04706172741001",
    "passed back": "220e0a0c1a0a1a080a04706172741001",
    "trailers": f"2a{_TRAILERS}",
    "last": f"32{_TRAILERS}",
    "refused": f"3a360a0308f703{_CHANGE}1a027b7d2a067069636b6572",
}


@pytest.mark.parametrize(
    ("made", "golden", "kind"),
    [
        (requests(), REQUESTS, protocol.ProcessingRequest),
        (answers(), ANSWERS, protocol.ProcessingResponse),
    ],
)
def test_messages_are_the_bytes_that_envoys_own_definition_makes(made, golden, kind):
    assert {
        name: one.SerializeToString(deterministic=True).hex() for name, one in made.items()
    } == golden
    assert {name: kind.FromString(bytes.fromhex(one)) for name, one in golden.items()} == made


def test_every_field_is_in_some_message():
    seen: set[str] = set()
    for one in (*requests().values(), *answers().values()):
        _note(one, seen)
    fields = [
        f"{package}.{message}.{name}"
        for package, messages in protocol._MESSAGES.items()
        for message, text in messages.items()
        for _, name, _ in protocol._read(text)
    ]
    assert seen == set(fields)


def test_what_it_does_not_know_is_skipped():
    observed, drained = b"\x50\x01", b"\x98\x06\x01"
    content = bytes.fromhex(REQUESTS["body"]) + observed + drained
    assert protocol.ProcessingRequest.FromString(content).request_body.end_of_stream


def test_everybodys_pool_of_descriptors_does_not_hear_of_it():
    name = protocol.ProcessingRequest.DESCRIPTOR.full_name
    assert name == "envoy.service.ext_proc.v3.ProcessingRequest"
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName(name)


def test_envoys_whole_definition_beside_it_agrees():
    python = FETCHED / "venv" / "bin" / "python"
    if not list(FETCHED.glob("venv/lib/*/site-packages/envoy")):
        pytest.skip("xds-protos is not here; `make chart` fetches it")
    script = Path(__file__).with_name("beside_xds.py")
    done = subprocess.run(
        [str(python), str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def _note(message, seen: set[str]) -> None:
    if message.DESCRIPTOR.file.name == protocol.Struct.DESCRIPTOR.file.name:
        return
    for field, value in message.ListFields():
        seen.add(field.full_name)
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for one in value if field.is_repeated else [value]:
            _note(one, seen)
