"""Every route of the OpenAPI document, asked by machine: no 500, and answers as it says."""

import json
import threading
from collections.abc import Iterator

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, settings
from jsonschema import Draft202012Validator
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sie_mcp.config import Config
from sie_mcp.dialects.openapi import openapi_json
from tests.toy_worker import make_worker
from tests.toys import ToyLoader


@schemathesis.check
def is_no_fault(context: object, response: schemathesis.Response, case: object) -> None:
    """A server may be busy, or have no time, and says so with a code; 500 is a defect."""
    assert response.status_code != 500, response.text
    is_refusal = response.status_code >= 400
    assert not is_refusal or response.headers["x-sie-error-code"]


CHECKS = (
    is_no_fault,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
SCHEMA = schemathesis.openapi.from_dict(json.loads(openapi_json()))
SMALL = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve toys on a socket, on a thread of its own."""
    config = Config(cache_dir=tmp_path_factory.mktemp("cache"), allow_model_control=True)
    app = make_worker(config, ToyLoader()).app
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    started = threading.Event()
    startup = server.startup

    async def say_so(*args: object, **named: object) -> None:
        await startup(*args, **named)
        started.set()

    server.startup = say_so
    thread.start()
    assert started.wait(30)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    yield f"http://{host}:{port}"
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore")
@SCHEMA.parametrize()
@SMALL
def test_no_request_of_the_documents_kind_is_a_fault(case: schemathesis.Case, worker: str) -> None:
    # The shortest waits that the document allows would end every request before it began.
    case.headers = {"Accept": "application/json"}
    case.call_and_validate(base_url=worker, checks=CHECKS, timeout=30)


def test_every_schema_of_the_document_is_one() -> None:
    document = json.loads(openapi_json())
    assert document["openapi"] == "3.1.0"
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
