"""Routes outside /v1 stand behind the same gate and are routed by the model they name."""

import pytest
from starlette.requests import Request

from sie_mcp.dialects.table import OTHER_PATHS
from sie_mcp.gateway.wanted import read_want
from tests.access.conftest import key_file  # noqa: F401  # a fixture
from tests.gateway.front import gateway

pytestmark = pytest.mark.anyio
OPEN = ("/health", "/healthz", "/readyz")


@pytest.mark.parametrize("path", [*OTHER_PATHS, "/openapi.json"])
async def test_a_key_is_wanted_on_every_route(key_file, path):  # noqa: F811
    key = key_file.add("ci")
    async with gateway(auth="api-key", api_keys_file=key_file.path) as front:
        refused = await front.http.post(path, json={"inputs": "a"})
        assert refused.status_code == 401
        assert refused.headers["x-sie-error-code"] == "NOT_AUTHENTICATED"
        assert front.worker.seen == []
        headers = {"Authorization": f"Bearer {key}"}
        assert (await front.http.get(path, headers=headers)).status_code != 401
        for probe in OPEN:
            assert (await front.http.get(probe)).status_code == 200


async def test_a_refusal_at_the_gate_has_the_dialect_s_form(key_file):  # noqa: F811
    key_file.add("ci")
    async with gateway(auth="api-key", api_keys_file=key_file.path) as front:
        tei = await front.http.post("/embed", json={"inputs": "a"})
        assert tei.json()["error_type"] == "Validation"
        openai = await front.http.post("/v1/embeddings", json={"input": "a"})
        assert openai.json()["error"]["type"] == "authentication_error"


@pytest.mark.parametrize("named", ["body", "header", "neither"])
@pytest.mark.parametrize("path", ["/embed", "/v1/rerank", "/v2/embed", "/score", "/tokenize"])
async def test_a_caller_has_only_its_own_models_on_any_route(key_file, path, named):  # noqa: F811
    key = key_file.add("ci", models=["mine"])
    async with gateway(auth="api-key", api_keys_file=key_file.path) as front:
        for model in ("mine", "other"):
            headers = {"Authorization": f"Bearer {key}"}
            headers |= {"X-SIE-Model": model} if named == "header" else {}
            body = {"model": model} if named == "body" else {}
            answer = await front.http.post(path, json=body, headers=headers)
            is_refused = answer.headers.get("x-sie-error-code") == "NOT_ALLOWED"
            assert is_refused is (model == "other" or named == "neither")


@pytest.mark.parametrize(
    ("path", "body", "headers", "model"),
    [
        ("/embed", b'{"model": "a"}', {"x-sie-model": "b"}, "a"),
        ("/embed", b"{}", {"x-sie-model": "b%2Fc"}, "b/c"),
        ("/embed", b"{}", {}, "auto"),
        ("/embed", b"no json", {}, "auto"),
        ("/v1/score", b'{"model": "a"}', {}, "a"),
        ("/v1/score/x/y?z", b'{"model": "a"}', {"x-sie-model": "b"}, "x/y?z"),
        ("/v1/models/x/load", b"{}", {"x-sie-model": "b"}, "x"),
    ],
)
def test_the_model_that_a_request_is_routed_by(path, body, headers, model):
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    request = Request({"type": "http", "method": "POST", "path": path, "headers": raw})
    assert read_want(request, body).model == model
