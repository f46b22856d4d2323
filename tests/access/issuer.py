"""A small real authorization server: metadata, keys, and tokens of every kind of wrongness."""

import time
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

RESOURCE = "https://sie.example.org/mcp"


@dataclass
class Issuer:
    """Signs with ES256. `url` is set once it is served.

    Attributes:
        num_fetches: How often its keys were asked for.
        is_down: Answers 500 while it is.
    """

    url: str = ""
    keys: dict[str, ec.EllipticCurvePrivateKey] = field(default_factory=dict)
    num_fetches: int = 0
    is_down: bool = False

    def __post_init__(self) -> None:
        self.turn("first")

    def turn(self, key_id: str) -> None:
        """Sign with a new key from now on."""
        self.keys[key_id] = ec.generate_private_key(ec.SECP256R1())
        self.key_id = key_id

    def token(self, *, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return a token that is good, but for the claims given; None leaves one out."""
        now = int(time.time())
        own = {
            "iss": self.url, "aud": RESOURCE, "sub": "alice", "exp": now + 60, "iat": now,
            "scope": "models:run",
        }  # fmt: skip
        payload = {name: value for name, value in (own | claims).items() if value is not None}
        return jwt.encode(
            payload, self.keys[self.key_id], "ES256", headers={"kid": self.key_id} | (headers or {})
        )

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._metadata),
                Route("/keys", self._keys),
            ]
        )

    async def _metadata(self, _: Request) -> Response:
        return JSONResponse({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})

    async def _keys(self, _: Request) -> Response:
        self.num_fetches += 1
        if self.is_down:
            return Response(status_code=500)
        found = []
        for key_id, key in self.keys.items():
            public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
            found.append(public | {"kid": key_id, "use": "sig", "alg": "ES256"})
        # Whoever signs with this one is anybody who can read it.
        shared = {
            "kty": "oct",
            "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA",
            "kid": "shared",
        }
        return JSONResponse({"keys": [shared, *found]})
