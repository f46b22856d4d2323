"""Our own routes, for the OpenAPI document alone: they are SIE's, and need no translation."""

from dataclasses import dataclass

import pydantic

from sie_mcp import wire
from sie_mcp.dialects.operation import DialectBody
from sie_mcp.dialects.tei_tokens import (
    DECODE,
    INFO,
    TOKENIZE,
    DecodedTexts,
    DecodeRequest,
    Info,
    TokenizeRequest,
    TokenLists,
)
from sie_mcp.wire_memory import LoadRequest, MemoryAccount, PinRequest, UnloadRequest


@dataclass(frozen=True, slots=True)
class Route:
    """A route that the table of dialects does not have.

    Attributes:
        body: None: it is asked by GET.
        status: Of an answer beside 200.
    """

    path: str
    name: str
    summary: str
    answer: type[pydantic.BaseModel]
    body: type[pydantic.BaseModel] | None = None
    status: int | None = None

    @property
    def is_sided(self) -> bool:
        """Whether texts can be queries or documents."""
        return self.body is wire.EncodeRequest

    @property
    def has_model_header(self) -> bool:
        """Whether a header can name the model."""
        return self.path == INFO or (self.body is not None and issubclass(self.body, DialectBody))


ROUTES = (
    Route(
        "/v1/encode/{model}",
        "encode",
        "Dense, sparse and token vectors of texts and images",
        wire.EncodeResponse,
        wire.EncodeRequest,
    ),
    Route(
        "/v1/score/{model}",
        "score",
        "Scores of items for a query",
        wire.ScoreResponse,
        wire.ScoreRequest,
    ),
    Route(
        "/v1/extract/{model}",
        "extract",
        "Entities, relations, labels and records",
        wire.ExtractResponse,
        wire.ExtractRequest,
    ),
    Route("/v1/models", "models", "Every model that is known", wire.ModelList),
    Route("/v1/models/{model}", "model", "One model", wire.ModelCard),
    Route("/v1/revision/{model}", "revision", "Which numbers a model gives now", wire.Revision),
    Route("/v1/memory", "memory", "What lies where, in bytes", MemoryAccount),
    Route("/v1/models/{model}/load", "load", "Bring a model up", wire.ModelCard, LoadRequest, 202),
    Route("/v1/models/{model}/unload", "unload", "Let a model go", MemoryAccount, UnloadRequest),
    Route("/v1/models/{model}/pin", "pin", "Keep a model up", wire.ModelCard, PinRequest),
    Route("/v1/models/{model}/unpin", "unpin", "Keep it no more", MemoryAccount, PinRequest),
    Route(TOKENIZE, "tei_tokenize", "The tokens of texts", TokenLists, TokenizeRequest),
    Route(DECODE, "tei_decode", "The texts of token ids", DecodedTexts, DecodeRequest),
    Route(INFO, "tei_info", "A model in TEI's words", Info),
)
