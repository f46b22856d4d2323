"""Which workers slices name: conditions, ports, families, and what a service is called by."""

import pytest

from sie_mcp.errors import SettingError
from sie_mcp.gateway.pool.endpoint_slices import Service, Slice, read_service, workers_of
from tests.gateway.pool.slices import HTTP, endpoint, slice_of

METRICS = {"name": "metrics", "port": 9100, "protocol": "TCP"}


def urls(*slices, port=None) -> list[str]:
    return [one.base_url for one in workers_of([Slice.model_validate(one) for one in slices], port)]


@pytest.mark.parametrize(
    ("conditions", "is_there"),
    [
        ({}, True),
        ({"ready": True}, True),
        ({"ready": None, "serving": None, "terminating": None}, True),
        ({"ready": False, "serving": False}, False),
        ({"ready": False, "serving": True, "terminating": True}, False),
        # `publishNotReadyAddresses` has it ready to the end.
        ({"ready": True, "serving": True, "terminating": True}, False),
    ],
)
def test_who_is_ready_and_does_not_leave_is_there(conditions, is_there):
    other = endpoint("10.0.0.9", ready=True)
    found = urls(slice_of(endpoint("10.0.0.1", **conditions), other))
    assert ("http://10.0.0.1:9000" in found) == is_there
    assert "http://10.0.0.9:9000" in found


def test_where_nobody_is_ready_those_that_leave_and_serve_are():
    leaving = endpoint("10.0.0.1", ready=False, serving=True, terminating=True)
    gone = endpoint("10.0.0.2", ready=False, serving=False, terminating=True)
    starting = endpoint("10.0.0.3", ready=False, serving=False, terminating=False)
    assert urls(slice_of(leaving, gone, starting)) == ["http://10.0.0.1:9000"]


def test_slices_are_joined_and_an_endpoint_in_two_is_one_worker_with_its_zone():
    first = slice_of(endpoint("10.0.0.1", "zone-a"), endpoint("10.0.0.2", "zone-b"))
    second = slice_of(endpoint("10.0.0.2", "zone-b"), endpoint("10.0.0.3"), name="l4-b")
    found = workers_of([Slice.model_validate(one) for one in (first, second)], None)
    assert [(one.base_url, one.zone) for one in found] == [
        ("http://10.0.0.1:9000", "zone-a"),
        ("http://10.0.0.2:9000", "zone-b"),
        ("http://10.0.0.3:9000", None),
    ]


def test_a_service_of_two_families_has_each_pod_once():
    six = slice_of(endpoint("fd00::1"), family="IPv6", name="l4-six")
    assert urls(six, slice_of(endpoint("10.0.0.1"))) == ["http://10.0.0.1:9000"]
    assert urls(six, slice_of()) == ["http://[fd00::1]:9000"]


def test_a_service_without_endpoints_has_no_workers():
    assert urls() == []
    assert urls({**slice_of(), "endpoints": None, "ports": None}) == []


@pytest.mark.parametrize(
    ("port", "ports", "found"),
    [
        (None, [METRICS], [9100]),
        (None, [METRICS, HTTP], [9000]),
        ("metrics", [METRICS, HTTP], [9100]),
        (8000, [METRICS, HTTP], [8000]),
        (8000, None, [8000]),
        ("other", [METRICS, HTTP], []),
        (None, [METRICS, {**HTTP, "name": "web"}], []),
        (None, [HTTP, {**HTTP, "name": "quic", "protocol": "UDP"}], [9000]),
        (None, [{"port": 7000}], [7000]),
    ],
)
def test_the_port_is_the_named_one_or_the_only_one_or_http(port, ports, found):
    document = {**slice_of(endpoint("10.0.0.1")), "ports": ports}
    assert urls(document, port=port) == [f"http://10.0.0.1:{one}" for one in found]


@pytest.mark.parametrize(
    ("text", "service"),
    [
        ("models/sie-l4", Service("models", "sie-l4")),
        ("models/sie-l4:http", Service("models", "sie-l4", "http")),
        ("models/sie-l4:9000", Service("models", "sie-l4", 9000)),
    ],
)
def test_a_service_is_named_by_its_namespace(text, service):
    assert read_service(text) == service


@pytest.mark.parametrize(
    "text",
    ["sie-l4", "a/b/c", "models/", "models/L4", "models/l4:", "models/l4:0", "models/l4:70000",
     "models/l4?watch=1", "../l4", "models/4l", "m" * 64 + "/l4"],
)  # fmt: skip
def test_what_is_no_service_is_refused_with_what_would_be(text):
    with pytest.raises(SettingError, match="give namespace/name of a Service"):
        read_service(text)
