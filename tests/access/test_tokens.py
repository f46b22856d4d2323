"""Tokens: what is checked of one, and what its issuer is asked."""

import base64
import json

import jwt
import pytest

from sie_mcp.access import issuer as issuer_module
from sie_mcp.access.issuer import IssuerKeys, is_safe
from sie_mcp.access.tokens import Tokens
from sie_mcp.errors import IssuerUnavailable, NotAuthenticated
from tests.access.issuer import RESOURCE, Issuer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def tokens(issuer):
    made = Tokens(issuer.url, RESOURCE, IssuerKeys(issuer.url, None))
    yield made
    await made.aclose()


def bearing(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_a_good_token_says_who_and_what(tokens, issuer):
    found = await tokens.identify(bearing(issuer.token(scope="models:run models:control")))
    assert found.name == "subject:alice"
    assert found.scopes == {"models:run", "models:control"}


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": None, "scp": ["models:run"]}, {"models:run"}),
        ({"scope": None, "scp": "models:run x"}, {"models:run", "x"}),
        ({"scope": None}, set()),
        ({"scope": 7}, set()),
        ({"scope": ["a", 7]}, {"a"}),
    ],
)
async def test_scopes_come_in_the_forms_that_issuers_have(tokens, issuer, claims, scopes):
    assert (await tokens.identify(bearing(issuer.token(**claims)))).scopes == scopes


async def test_a_client_without_a_user_is_a_caller(tokens, issuer):
    found = await tokens.identify(bearing(issuer.token(sub=None, client_id="agent")))
    assert found.name == "subject:agent"


async def test_several_audiences_may_be_ours_too(tokens, issuer):
    await tokens.identify(bearing(issuer.token(aud=["https://other", RESOURCE])))


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"aud": "https://other.example.org/mcp"}, f"not for {RESOURCE}"),
        ({"aud": RESOURCE + "/"}, "not for"),
        ({"aud": None}, "has no aud"),
        ({"iss": "https://evil.example.org"}, "another issuer"),
        ({"iss": None}, "has no iss"),
        ({"exp": 1}, "has expired"),
        ({"exp": None}, "has no exp"),
        ({"exp": "soon"}, "no token"),
        ({"nbf": 9_999_999_999}, "no token"),
        ({"sub": None}, "neither a subject nor a client"),
        ({"sub": ""}, "neither a subject nor a client"),
    ],
)
async def test_a_token_for_others_or_of_others_is_refused(tokens, issuer, claims, message):
    with pytest.raises(NotAuthenticated, match=message):
        await tokens.identify(bearing(issuer.token(**claims)))


@pytest.mark.parametrize(
    "token",
    ["", "x", "a.b.c", "sie_key", "x" * 20_000, "é.é.é", "e30.e30.e30", "..", "bnVsbA.bnVsbA."],
)
async def test_what_is_no_token_is_refused(tokens, token):
    with pytest.raises(NotAuthenticated):
        await tokens.identify(bearing(token))


@pytest.mark.parametrize("scheme", ["", "Basic ", "Bearer", "Token "])
async def test_only_bearer_counts(tokens, issuer, scheme):
    with pytest.raises(NotAuthenticated, match="Authorization: Bearer"):
        await tokens.identify({"authorization": scheme + issuer.token()})


async def test_a_signature_that_anybody_could_make_is_refused(tokens, issuer):
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    secret = b"secret-secret-secret-secret-secret"
    shared = jwt.encode(claims, secret, "HS256", headers={"kid": "shared"})
    unsigned = jwt.encode(claims, None, "none", headers={"kid": "first"})
    head, body, sign = issuer.token().split(".")
    forged = base64.urlsafe_b64encode(json.dumps(claims | {"sub": "root"}).encode()).decode()
    other = Issuer(url=issuer.url).token()
    for token in (
        shared,
        unsigned,
        f"{head}.{forged.rstrip('=')}.{sign}",
        f"{head}.{body}.",
        other,
    ):
        with pytest.raises(NotAuthenticated):
            await tokens.identify(bearing(token))


async def test_a_token_cannot_choose_where_its_key_is(tokens, issuer):
    evil = Issuer(url=issuer.url)
    evil.turn("evil")
    token = evil.token(headers={"jku": "https://evil.example.org/keys"})
    with pytest.raises(NotAuthenticated, match="a key that its issuer does not have"):
        await tokens.identify(bearing(token))


async def test_keys_are_fetched_once(tokens, issuer):
    for _ in range(3):
        await tokens.identify(bearing(issuer.token()))
    assert issuer.num_fetches == 1


async def test_keys_that_nobody_has_are_asked_for_within_a_bound(tokens, issuer):
    for number in range(5):
        token = issuer.token(headers={"kid": f"made-up-{number}"})
        with pytest.raises(NotAuthenticated):
            await tokens.identify(bearing(token))
    assert issuer.num_fetches == 1


async def test_a_new_key_of_the_issuer_is_found(tokens, issuer, monkeypatch):
    await tokens.identify(bearing(issuer.token()))
    issuer.turn("second")
    monkeypatch.setattr(issuer_module, "REFRESH_EVERY_S", 0.0)
    await tokens.identify(bearing(issuer.token()))
    assert issuer.num_fetches == 2


async def test_an_issuer_that_is_down_is_no_reason_to_refuse_for_good(tokens, issuer, monkeypatch):
    issuer.is_down = True
    with pytest.raises(IssuerUnavailable) as raised:
        await tokens.identify(bearing(issuer.token()))
    assert raised.value.retryable
    issuer.is_down = False
    monkeypatch.setattr(issuer_module, "REFRESH_EVERY_S", 0.0)
    await tokens.identify(bearing(issuer.token()))
    issuer.is_down = True
    monkeypatch.setattr(issuer_module, "KEYS_AGE_S", -1.0)
    await tokens.identify(bearing(issuer.token()))
    monkeypatch.setattr(issuer_module, "MAX_KEYS_AGE_S", -1.0)
    with pytest.raises(IssuerUnavailable):
        await tokens.identify(bearing(issuer.token()))


async def test_metadata_of_another_issuer_is_not_believed(issuer):
    tokens = Tokens(f"{issuer.url}/tenant", RESOURCE, IssuerKeys(f"{issuer.url}/tenant", None))
    with pytest.raises(IssuerUnavailable):
        await tokens.identify(bearing(issuer.token()))
    assert issuer.num_fetches == 0
    await tokens.aclose()


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://auth.example.org", True), ("http://localhost:9/x", True),
        ("http://auth.example.org", False), ("file:///etc/passwd", False), ("https://", False),
        ("http://localhost.example.org", False),
    ],
)  # fmt: skip
async def test_keys_come_over_https_or_from_here(url, safe):
    assert is_safe(url) == safe
