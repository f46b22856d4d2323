"""A real Envoy that asks an endpoint picker; skips where the program is not."""

import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import yaml

from sie_mcp.gateway.endpoint_picker.messages import BALANCING, DESTINATION
from tests.chart.rendering import program

TYPES = "type.googleapis.com/envoy.extensions"
HTTP = f"{TYPES}.upstreams.http.v3.HttpProtocolOptions"
ROUND_ROBIN = f"{TYPES}.load_balancing_policies.round_robin.v3.RoundRobin"
OVERRIDE = f"{TYPES}.load_balancing_policies.override_host.v3.OverrideHost"

# How Envoy is set to ask: by which bodies it sends.
MODES = {
    "buffered": {"request_body_mode": "BUFFERED"},
    "both ways": {
        "request_body_mode": "FULL_DUPLEX_STREAMED",
        "request_trailer_mode": "SEND",
        "response_body_mode": "FULL_DUPLEX_STREAMED",
    },
    "no body": {"request_body_mode": "NONE"},
}


@asynccontextmanager
async def envoy(
    folder: Path, picker_port: int, workers: Sequence[str], mode: str = "buffered"
) -> AsyncIterator[str]:
    """Run Envoy in front of workers; yield its URL."""
    binary = program("envoy")
    config, admin = folder / "envoy.yaml", folder / "admin"
    config.write_text(yaml.safe_dump(_config(picker_port, workers, mode)))
    options = ["--concurrency", "1", "--use-dynamic-base-id", "-l", "error"]
    command = [binary, "-c", str(config), "--admin-address-path", str(admin), *options]
    with (folder / "envoy.log").open("wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield f"http://{await _listening(admin, running)}"
        finally:
            running.terminate()
            running.wait(timeout=20)


async def _listening(admin: Path, running: subprocess.Popen[bytes]) -> str:
    with anyio.fail_after(60):
        async with httpx2.AsyncClient(timeout=5) as http:
            while True:
                assert running.poll() is None, (admin.parent / "envoy.log").read_text()
                if admin.exists() and (place := admin.read_text().strip()):
                    answer = await http.get(f"http://{place}/listeners?format=json")
                    found = json.loads(answer.text).get("listener_statuses", [])
                    if found:
                        at = found[0]["local_address"]["socket_address"]
                        return f"{at['address']}:{at['port_value']}"
                await anyio.sleep(0.02)


def _config(picker_port: int, workers: Sequence[str], mode: str) -> dict[str, Any]:
    return {
        "admin": {"address": _at("127.0.0.1", 0)},
        "static_resources": {
            "listeners": [
                {
                    "name": "front",
                    "address": _at("127.0.0.1", 0),
                    "filter_chains": [{"filters": [_connections(mode)]}],
                }
            ],
            "clusters": [_workers(workers), _picker(picker_port)],
        },
    }


def _connections(mode: str) -> dict[str, Any]:
    processing = {
        "request_header_mode": "SEND",
        "response_header_mode": "SEND",
        "response_trailer_mode": "SEND",
        **MODES[mode],
    }
    picker = {
        "@type": f"{TYPES}.filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}, "timeout": "60s"},
        "processing_mode": processing,
        "message_timeout": "60s",
        "response_attributes": ["upstream.address"],
        "mutation_rules": {"allow_all_routing": True},
        "metadata_options": {
            "forwarding_namespaces": {"untyped": [BALANCING, "envoy.lb.subset_hint"]},
            "receiving_namespaces": {"untyped": [BALANCING]},
        },
    }
    subset = {
        "@type": f"{TYPES}.filters.http.header_to_metadata.v3.Config",
        "request_rules": [
            {
                "header": "x-test-subset",
                "on_header_present": {
                    "metadata_namespace": "envoy.lb.subset_hint",
                    "key": f"{DESTINATION}-subset",
                },
                "remove": True,
            }
        ],
    }
    retries = {"retry_on": "connect-failure,refused-stream", "num_retries": 2}
    routes = [{"match": {"prefix": "/"}, "route": {"cluster": "workers", "timeout": "60s"}}]
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": f"{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "front",
            "route_config": {
                "virtual_hosts": [
                    {"name": "all", "domains": ["*"], "routes": routes, "retry_policy": retries}
                ]
            },
            "http_filters": [
                _filter("header_to_metadata", subset),
                _filter("ext_proc", picker),
                _filter("router", {"@type": f"{TYPES}.filters.http.router.v3.Router"}),
            ],
        },
    }


def _workers(workers: Sequence[str]) -> dict[str, Any]:
    hosts = [one.removeprefix("http://").split(":") for one in workers]
    ends = [{"endpoint": {"address": _at(host, int(port))}} for host, port in hosts]
    sources = [{"metadata": {"key": BALANCING, "path": [{"key": DESTINATION}]}}]
    fallback = {"policies": [_policy("round_robin", {"@type": ROUND_ROBIN})]}
    override = {
        "@type": OVERRIDE,
        "override_host_sources": sources,
        "fallback_policy": fallback,
    }
    return {
        "name": "workers",
        "type": "STATIC",
        "connect_timeout": "2s",
        "load_balancing_policy": {"policies": [_policy("override_host", override)]},
        "load_assignment": {"cluster_name": "workers", "endpoints": [{"lb_endpoints": ends}]},
    }


def _picker(port: int) -> dict[str, Any]:
    http2 = {"@type": HTTP, "explicit_http_config": {"http2_protocol_options": {}}}
    ends = [{"endpoint": {"address": _at("127.0.0.1", port)}}]
    return {
        "name": "picker",
        "type": "STATIC",
        "typed_extension_protocol_options": {HTTP.removeprefix("type.googleapis.com/"): http2},
        "load_assignment": {"cluster_name": "picker", "endpoints": [{"lb_endpoints": ends}]},
    }


def _policy(name: str, config: dict[str, Any]) -> dict[str, Any]:
    full = f"envoy.load_balancing_policies.{name}"
    return {"typed_extension_config": {"name": full, "typed_config": config}}


def _filter(name: str, config: dict[str, Any]) -> dict[str, Any]:
    return {"name": f"envoy.filters.http.{name}", "typed_config": config}


def _at(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}
