"""TEI's `/tokenize`, `/decode` and `/info`: nothing runs, but the model has to be up for two."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pydantic
from starlette.requests import Request
from starlette.routing import Route

from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.token_ids import decoded, named_tokens
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.dialects.bodies import model_of
from sie_mcp.dialects.tei_tokens import (
    DECODE,
    INFO,
    TOKENIZE,
    DecodedTexts,
    DecodeRequest,
    Info,
    Token,
    TokenizeRequest,
    TokenLists,
    info_of,
)
from sie_mcp.engine.caller import read_caller
from sie_mcp.engine.engine import Engine
from sie_mcp.engine.http import read_body, route
from sie_mcp.errors import InvalidInput
from sie_mcp.http_ends import unless_gone

BodyT = TypeVar("BodyT", TokenizeRequest, DecodeRequest)
AnswerT = TypeVar("AnswerT", bound=pydantic.BaseModel)


class TokenRoutes:
    """Ten lines a door."""

    def __init__(self, engine: Engine, *, max_body_bytes: int) -> None:
        self._engine = engine
        self._max_body_bytes = max_body_bytes

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(TOKENIZE, route("tei_tokenize", self._tokenize), methods=["POST"]),
            Route(DECODE, route("tei_decode", self._decode), methods=["POST"]),
            Route(INFO, route("tei_info", self._info)),
        ]

    async def _tokenize(self, request: Request) -> pydantic.BaseModel:
        body = await read_body(request, TokenizeRequest, self._max_body_bytes)
        texts = body.texts
        self._engine.check_texts(texts)
        return await self._with_adapter(request, body, partial(_tokens, texts, body))

    async def _decode(self, request: Request) -> pydantic.BaseModel:
        body = await read_body(request, DecodeRequest, self._max_body_bytes)
        return await self._with_adapter(request, body, partial(_texts, body))

    async def _info(self, request: Request) -> Info:
        name = request.query_params.get("model") or model_of(request.headers)
        self._engine.check_names([name], read_caller(request.headers))
        card = await self._engine.model(name)
        return info_of(card, self._engine.max_items, self._engine.settings)

    async def _with_adapter(
        self, request: Request, body: BodyT, use: Callable[[Adapter], AnswerT]
    ) -> AnswerT:
        caller = read_caller(request.headers)
        work = self._engine.with_adapter(model_of(request.headers, body), "encode", use, caller)
        return await unless_gone(request, work)


def _tokens(texts: list[str], body: TokenizeRequest, adapter: Adapter) -> TokenLists:
    tokenizer = _tokenizer(adapter)
    special = tokenizer.special_ids()
    return TokenLists(
        [
            [
                Token(
                    id=one.id,
                    text=one.text,
                    special=one.start is None or one.id in special,
                    start=one.start,
                    stop=one.end,
                )
                for one in tokens
            ]
            for tokens in named_tokens(tokenizer, texts, special_tokens=body.add_special_tokens)
        ]
    )


def _texts(body: DecodeRequest, adapter: Adapter) -> DecodedTexts:
    skip = body.skip_special_tokens
    name = adapter.card.name
    texts = decoded(_tokenizer(adapter), body.lists, skip_special_tokens=skip, model=name)
    return DecodedTexts(texts)


def _tokenizer(adapter: Adapter) -> TextTokenizer:
    if adapter.tokenizer is None:
        raise InvalidInput(f"{adapter.card.name} has no tokenizer of its own")
    return adapter.tokenizer
