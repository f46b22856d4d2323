"""Opaque tokens: what the issuer is asked, how long its word counts, what it cannot open."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from sie_mcp.access import introspection as module
from sie_mcp.access.gate import Access
from sie_mcp.access.introspection import Client, Introspection
from sie_mcp.access.setup import make_access
from sie_mcp.config import Config
from sie_mcp.errors import IssuerUnavailable, NotAuthenticated, SettingError
from tests.access.issuer import RESOURCE
from tests.servers import serving

pytestmark = pytest.mark.anyio
ISSUER = "https://issuer.example.org"
GOOD = {"active": True, "sub": "alice", "aud": RESOURCE, "scope": "models:run"}


@dataclass
class Asked:
    """An issuer that answers all of its questions alike."""

    answer: Any = field(default_factory=lambda: dict(GOOD))
    forms: list[dict[str, Any]] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    url: str = ""

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/ask", self._ask, methods=["POST"])])

    async def _ask(self, request: Request) -> Response:
        self.forms.append(dict(await request.form()))
        self.authorizations.append(request.headers["authorization"])
        if isinstance(self.answer, Response):
            return self.answer
        if isinstance(self.answer, asyncio.Event):
            await self.answer.wait()
            return JSONResponse(GOOD)
        return JSONResponse(self.answer)


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    made = Asked()
    async with serving(made.app()) as url:
        made.url = f"{url}/ask"
        yield made


@pytest.fixture
async def tokens(asked: Asked) -> AsyncIterator[Introspection]:
    made = Introspection(asked.url, ISSUER, RESOURCE, Client("me:a", "s ecret"))
    yield made
    await made.aclose()


def bearing(token: str = "opaque") -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_the_issuer_says_who_it_is_and_is_asked_once(asked, tokens):
    for _ in range(3):
        found = await tokens.identify(bearing())
        assert found.name == "subject:alice" and found.scopes == {"models:run"}
    assert asked.forms == [{"token": "opaque", "token_type_hint": "access_token"}]
    # "me%3Aa:s+ecret": both are encoded as in a form.
    assert asked.authorizations == ["Basic bWUlM0FhOnMrZWNyZXQ="]


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"active": False}, "not active"),
        ({"active": "true"}, "not active"),
        ({"aud": "https://other"}, "not for"),
        ({"aud": None}, "not for"),
        ({"iss": "https://other"}, "another issuer"),
        ({"exp": 1}, "has expired"),
        ({"exp": "soon"}, "no time"),
        ({"nbf": 9_999_999_999}, "not good yet"),
        ({"sub": None}, "neither a subject nor a client"),
    ],
)
async def test_what_is_not_good_here_is_refused_and_not_asked_again(asked, tokens, claims, message):
    asked.answer = GOOD | claims
    for _ in range(2):
        with pytest.raises(NotAuthenticated, match=message):
            await tokens.identify(bearing())
    assert len(asked.forms) == 1


async def test_several_audiences_may_be_ours_too(asked, tokens):
    asked.answer = GOOD | {"aud": ["https://other", RESOURCE], "iss": ISSUER}
    assert (await tokens.identify(bearing())).name == "subject:alice"


async def test_a_token_that_was_revoked_passes_for_a_minute_at_most(asked, tokens, monkeypatch):
    await tokens.identify(bearing())
    asked.answer = {"active": False}
    now_s = time.time()
    monkeypatch.setattr(module.time, "time", lambda: now_s + module.KEPT_S + 1)
    with pytest.raises(NotAuthenticated, match="revoked"):
        await tokens.identify(bearing())


@pytest.mark.parametrize(
    "answer",
    [
        Response(status_code=500),
        Response(status_code=401),
        RedirectResponse("https://elsewhere"),
        Response("no json"),
        ["active"],
        Response(b" " * 600_000),
    ],
    ids=["broken", "refused", "elsewhere", "no json", "a list", "endless"],
)
async def test_where_the_issuer_gives_no_answer_nobody_passes(asked, tokens, answer):
    asked.answer = answer
    with pytest.raises(IssuerUnavailable):
        await tokens.identify(bearing())
    # That is no word about the token.
    asked.answer = GOOD
    assert (await tokens.identify(bearing())).name == "subject:alice"


async def test_an_issuer_that_does_not_answer_is_not_waited_for(asked, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT_S", 0.2)
    tokens = Introspection(asked.url, ISSUER, RESOURCE, Client("a", "b"))
    asked.answer = asyncio.Event()
    with anyio.fail_after(30), pytest.raises(IssuerUnavailable):
        await tokens.identify(bearing())
    asked.answer.set()
    await tokens.aclose()


async def test_what_is_kept_is_bounded(asked, tokens, monkeypatch):
    monkeypatch.setattr(module, "MAX_KEPT", 2)
    for token in ("a", "b", "c", "c", "b", "a"):
        await tokens.identify(bearing(token))
    assert [form["token"] for form in asked.forms] == ["a", "b", "c", "a"]


async def test_settings_choose_it_and_say_what_is_missing(asked, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    settings = {
        "auth": "oauth", "oauth_issuer": ISSUER, "resource_url": RESOURCE,
        "oauth_introspection_url": asked.url,
    }  # fmt: skip
    with pytest.raises(SettingError, match="needs oauth_client_id and oauth_client_secret_file"):
        make_access(Config(**settings))
    settings |= {"oauth_client_id": "me", "oauth_client_secret_file": secret}
    access: Access = make_access(Config(**settings))
    assert access.authenticator is not None
    assert (await access.authenticator.identify(bearing())).name == "subject:alice"
    await access.aclose()
    with pytest.raises(SettingError, match="not both"):
        make_access(Config(**settings, oauth_jwks_url="https://a"))
    with pytest.raises(SettingError, match="https"):
        make_access(Config(**settings | {"oauth_introspection_url": "http://a.example/ask"}))
    del settings["oauth_introspection_url"]
    with pytest.raises(SettingError, match="oauth_client_id is set"):
        make_access(Config(**settings))
    secret.write_text("")
    settings |= {"oauth_introspection_url": asked.url}
    with pytest.raises(SettingError, match="1 to"):
        make_access(Config(**settings))
