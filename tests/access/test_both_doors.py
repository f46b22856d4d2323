"""Who may call a gateway: modes, both doors, what a refusal says, what the worker hears."""

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from sie_mcp.config import Config
from sie_mcp.errors import SettingError
from sie_mcp.gateway.app import build_app, run_http
from tests.access.issuer import RESOURCE
from tests.gateway.front import CALL, ITEMS, gateway, raw_call
from tests.gateway.in_memory import text_of

pytestmark = pytest.mark.anyio
VERSIONS = pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])


def bearing(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def call(front, key: str | None, version: str = "2026-07-28", **headers: str):
    made = raw_call(version)
    made["headers"] |= headers | ({} if key is None else bearing(key))
    return await front.http.post("/mcp", **made)


@VERSIONS
async def test_both_doors_want_a_key(key_file, version):
    key = key_file.add("ci")
    async with gateway(auth="api-key", api_keys_file=key_file.path) as front:
        for wrong in (None, "sie_wrong"):
            headers = {} if wrong is None else bearing(wrong)
            for answer in (
                await call(front, wrong, version),
                await front.http.post("/v1/encode/toy", json=ITEMS, headers=headers),
                await front.http.get("/v1/models", headers=headers),
                await front.http.post("/v1/models/toy/load", headers=headers),
            ):
                assert answer.status_code == 401
                assert answer.headers["x-sie-error-code"] == "NOT_AUTHENTICATED"
                assert answer.headers["www-authenticate"] == 'Bearer realm="sie-mcp"'
        assert front.worker.seen == []
        assert (await call(front, key, version)).status_code == 200
        answer = await front.http.post("/v1/encode/toy", json=ITEMS, headers=bearing(key))
        assert answer.status_code == 200


async def test_a_client_calls_tools_with_its_key(key_file):
    key = key_file.add("ci")
    async with (
        gateway(auth="api-key", api_keys_file=key_file.path) as front,
        httpx2.AsyncClient(headers=bearing(key)) as http,
        Client(streamable_http_client(f"{front.url}/mcp", http_client=http)) as client,
    ):
        assert not (await client.call_tool("rerank", CALL)).is_error


async def test_a_worker_hears_who_calls_and_never_a_credential(key_file):
    keys = [key_file.add("one"), key_file.add("two")]
    async with gateway(auth="api-key", api_keys_file=key_file.path) as front:
        for key in keys:
            made_up = {"X-SIE-Client": "somebody else", "Cookie": "a=b", "X-API-Key": key}
            await call(front, key, **made_up)
            await front.http.post("/v1/encode/toy", json=ITEMS, headers=bearing(key) | made_up)
    names = [seen.headers["x-sie-client"] for seen in front.worker.seen]
    assert names[0] == names[1] != names[2] == names[3]
    for seen in front.worker.seen:
        assert not {"authorization", "x-api-key", "cookie"} & set(seen.headers)
        assert not any(key in value for key in keys for value in seen.headers.values())


async def test_a_gateway_shows_its_own_key_to_the_worker(tmp_path):
    (tmp_path / "key").write_text("sie_gateways\n")
    async with gateway(worker_key_file=tmp_path / "key") as front:
        await call(front, None)
        await front.http.post("/v1/encode/toy", json=ITEMS, headers=bearing("callers"))
    for seen in front.worker.seen:
        assert seen.headers["authorization"] == "Bearer sie_gateways"


@VERSIONS
async def test_tokens_of_the_issuer_are_let_in(issuer, version):
    async with gateway(auth="oauth", oauth_issuer=issuer.url, resource_url=RESOURCE) as front:
        assert (await call(front, issuer.token(), version)).status_code == 200
        refused = await call(front, issuer.token(aud="https://other"), version)
        assert refused.status_code == 401
        assert "not for" in refused.json()["error"]["message"]


async def test_a_client_without_a_token_learns_where_to_get_one(issuer):
    async with gateway(auth="oauth", oauth_issuer=issuer.url, resource_url=RESOURCE) as front:
        for answer in (await call(front, None), await front.http.get("/v1/models")):
            assert answer.status_code == 401
            challenge = answer.headers["www-authenticate"]
            where = "https://sie.example.org/.well-known/oauth-protected-resource/mcp"
            assert f'resource_metadata="{where}"' in challenge
            assert 'scope="models:run"' in challenge
        for path in ("/mcp", ""):
            found = await front.http.get(f"/.well-known/oauth-protected-resource{path}")
            assert found.json()["resource"] == RESOURCE
            assert found.json()["authorization_servers"] == [issuer.url]


async def test_a_token_without_the_scope_is_a_403_that_names_it(issuer):
    async with gateway(
        auth="oauth", oauth_issuer=issuer.url, resource_url=RESOURCE, allow_model_control=True
    ) as front:
        answer = await call(front, issuer.token(scope="openid"))
        assert answer.status_code == 403
        assert (
            'error="insufficient_scope", scope="models:run"' in answer.headers["www-authenticate"]
        )
        path = "/v1/models/toy/unload"
        answer = await front.http.post(path, headers=bearing(issuer.token()))
        assert answer.status_code == 403
        assert 'scope="models:control"' in answer.headers["www-authenticate"]
        assert front.worker.seen == []
        token = issuer.token(scope="models:run models:control")
        await front.http.post(path, headers=bearing(token))
        assert [seen.path for seen in front.worker.seen] == [path]


async def test_an_issuer_that_is_down_is_a_503(issuer):
    issuer.is_down = True
    async with gateway(auth="oauth", oauth_issuer=issuer.url, resource_url=RESOURCE) as front:
        answer = await call(front, issuer.token())
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
async def test_a_key_may_have_some_tools_and_models_only(key_file, version):
    key = key_file.add("few", tools=["rerank"], models=["toy", "auto"])
    async with gateway(auth="api-key", api_keys_file=key_file.path) as front:
        headers = bearing(key)
        for path, body, status in (
            ("/v1/encode/toy", ITEMS, 200),
            ("/v1/encode/other", ITEMS, 403),
            ("/v1/encode/other%2Ftoy", ITEMS, 403),
            ("/v1/embeddings", {"model": "other", "input": "x"}, 403),
            ("/v1/rerank", {"model": "other", "query": "q", "documents": ["d"]}, 403),
            ("/v1/encode/toy", ITEMS | {"params": {"options": {"lora": "org/x"}}}, 403),
        ):
            answer = await front.http.post(path, json=body, headers=headers)
            assert answer.status_code == status, path
        assert len(front.worker.seen) == 1
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(
                streamable_http_client(f"{front.url}/mcp", http_client=http),
                mode="auto" if version == "2026-07-28" else "legacy",
            ) as client,
        ):
            assert not (await client.call_tool("rerank", CALL)).is_error
            result = await client.call_tool("rerank", CALL | {"model": "other"})
            assert "you may use: toy, auto" in text_of(result)
            result = await client.call_tool("list_models", {})
            assert text_of(result).endswith("you may call: rerank")


@pytest.mark.parametrize(("expose", "status"), [("open", 200), ("auth", 401), ("off", 401)])
async def test_probes_stay_open_and_figures_as_set(key_file, expose, status):
    key = key_file.add("ci")
    settings = {"auth": "api-key", "api_keys_file": key_file.path, "expose_metrics": expose}
    async with gateway(**settings) as front:
        assert (await front.http.get("/healthz")).status_code == 200
        assert (await front.http.get("/readyz")).status_code == 200
        assert (await front.http.get("/metrics")).status_code == status
        answer = await front.http.get("/metrics", headers=bearing(key))
        assert answer.status_code == (404 if expose == "off" else 200)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"auth": "api-key"}, "needs api_keys_file; `sie-mcp key new NAME` prints an entry"),
        ({"auth": "oauth"}, "needs oauth_issuer and resource_url"),
        ({"auth": "oauth", "oauth_issuer": "https://a"}, "needs resource_url"),
        ({"auth": "oauth", "oauth_issuer": "http://a", "resource_url": RESOURCE}, "https:// is"),
        ({"auth": "oauth", "oauth_issuer": "https://a", "resource_url": "http://b"}, "https:// is"),
        (
            {
                "auth": "oauth", "oauth_issuer": "https://a", "resource_url": RESOURCE,
                "oauth_jwks_url": "http://b",
            },
            "https:// is",
        ),
        (
            {"auth": "oauth", "oauth_issuer": "https://a", "resource_url": RESOURCE + "#x"},
            "no #fragment",
        ),
        ({"oauth_issuer": "https://a"}, "auth=none does not use it"),
        ({"api_keys_file": "/nowhere"}, "auth=none does not use it"),
        ({"auth": "api-key", "api_keys_file": "/nowhere"}, "No such file"),
        ({"limit_storage": "nothing://x"}, "limit_storage"),
        ({"worker_key_file": "/nowhere"}, "worker_key_file"),
    ],
)  # fmt: skip
def test_what_does_not_fit_stops_the_start(settings, message):
    with pytest.raises(SettingError, match=message):
        build_app(Config(worker_url="http://w", **settings), files_allowed=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "sie"])
def test_a_server_is_not_open_to_a_network_by_default(host):
    with pytest.raises(SettingError, match="auth is not set"):
        run_http(Config(worker_url="http://w", host=host), files_allowed=False)
