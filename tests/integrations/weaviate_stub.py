"""A stub of Weaviate's server that its own client talks to: gRPC for objects, HTTP to connect.

Keeps one collection in memory and compares by cosine. What it cannot do it refuses.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import numpy as np
import weaviate
from weaviate.proto.v1 import (
    batch_pb2,
    health_weaviate_pb2,
    properties_pb2,
    search_get_pb2,
    weaviate_pb2_grpc,
)

META = b'{"hostname": "stub", "version": "1.30.0", "modules": {}}'


class Objects(weaviate_pb2_grpc.WeaviateServicer):
    """What a collection does."""

    def __init__(self) -> None:
        self.held: list[tuple[str, dict[str, Any], dict[str, np.ndarray]]] = []

    def BatchObjects(self, request: Any, _: Any) -> Any:  # noqa: N802  # gRPC's name
        for one in request.objects:
            properties = dict(one.properties.non_ref_properties)
            self.held.append((one.uuid, properties, _vectors(one)))
        return batch_pb2.BatchObjectsReply(took=0.0)

    def Search(self, request: Any, _: Any) -> Any:  # noqa: N802  # gRPC's name
        near = request.near_vector
        (target,) = [*near.target_vectors, *near.targets.target_vectors] or [""]
        (query,) = _vectors(near).values()
        ranked = sorted(self.held, key=lambda one: -_cosine(one[2][target], query))
        return search_get_pb2.SearchReply(
            results=[_result(*one[:2]) for one in ranked[: request.limit]]
        )


def _health() -> grpc.GenericRpcHandler:
    """Say that it is up."""
    response = health_weaviate_pb2.WeaviateHealthCheckResponse

    def check(_: Any, __: Any) -> Any:
        return response(status=response.SERVING)

    handler = grpc.unary_unary_rpc_method_handler(
        check,
        request_deserializer=health_weaviate_pb2.WeaviateHealthCheckRequest.FromString,
        response_serializer=response.SerializeToString,
    )
    return grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler})


class Connects(BaseHTTPRequestHandler):
    """What a client asks before anything else."""

    def do_GET(self) -> None:  # the library's name
        """Answer with the version; there is no login."""
        is_meta = self.path.startswith("/v1/meta")
        self.send_response(200 if is_meta else 404)
        self.end_headers()
        self.wfile.write(META if is_meta else b"")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def connected() -> Iterator[tuple[weaviate.WeaviateClient, Objects]]:
    """Serve, and yield Weaviate's client of it, and what it holds."""
    objects = Objects()
    server = grpc.server(ThreadPoolExecutor(2))
    weaviate_pb2_grpc.add_WeaviateServicer_to_server(objects, server)
    server.add_generic_rpc_handlers((_health(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    http = ThreadingHTTPServer(("127.0.0.1", 0), Connects)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        with weaviate.connect_to_local(
            host="127.0.0.1", port=http.server_port, grpc_port=port
        ) as client:
            yield client, objects
    finally:
        server.stop(None).wait(10)
        http.shutdown()
        http.server_close()
        thread.join(10)


def _vectors(message: Any) -> dict[str, np.ndarray]:
    """Return the vectors of a message, whichever of its fields holds them."""
    found = {one.name: np.frombuffer(one.vector_bytes, "<f4") for one in message.vectors}
    if not found and message.vector_bytes:
        found[""] = np.frombuffer(message.vector_bytes, "<f4")
    if not found:
        found = {
            one.name: np.frombuffer(one.vector_bytes, "<f4")
            for one in getattr(message, "vector_for_targets", ())
        }
    return found


def _result(uuid: str, properties: dict[str, Any]) -> Any:
    values = {name: properties_pb2.Value(text_value=text) for name, text in properties.items()}
    return search_get_pb2.SearchResult(
        metadata=search_get_pb2.MetadataResult(id=uuid),
        properties=search_get_pb2.PropertiesResult(
            target_collection="Paragraph", non_ref_props=properties_pb2.Properties(fields=values)
        ),
    )


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
