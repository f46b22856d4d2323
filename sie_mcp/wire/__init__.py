"""The contract between client and worker: request and response types of the three primitives.

Bodies travel as JSON or MessagePack (`encode_body`, `decode_body`); arrays are numpy arrays in
MessagePack (the msgpack-numpy map form, keys as bytes) and nested lists in JSON.
Nothing here knows HTTP, models or torch.
"""

from sie_mcp.wire.encode import (
    Dense,
    EncodedItem,
    EncodeOptions,
    EncodeParams,
    EncodeRequest,
    EncodeResponse,
    Multivector,
    MuveraOptions,
    OutputDtype,
    OutputType,
    Sparse,
)
from sie_mcp.wire.extract import (
    MAX_NEW_TOKENS,
    Classification,
    Entity,
    ExtractedItem,
    ExtractOptions,
    ExtractParams,
    ExtractRequest,
    ExtractResponse,
    OffsetUnit,
    Relation,
    Share,
)
from sie_mcp.wire.items import (
    Body,
    Item,
    ItemError,
    ItemResult,
    Span,
    Timing,
    Usage,
    VectorType,
    of_ours,
)
from sie_mcp.wire.models import (
    EffectiveSetting,
    ModelCard,
    ModelError,
    ModelList,
    OpenAIModel,
    Revision,
)
from sie_mcp.wire.score import Score, ScoreOptions, ScoreRequest, ScoreResponse, ScoreType

Request = EncodeRequest | ScoreRequest | ExtractRequest
Response = EncodeResponse | ScoreResponse | ExtractResponse

__all__ = [
    "MAX_NEW_TOKENS",
    "Body",
    "Classification",
    "Dense",
    "EffectiveSetting",
    "EncodeOptions",
    "EncodeParams",
    "EncodeRequest",
    "EncodeResponse",
    "EncodedItem",
    "Entity",
    "ExtractOptions",
    "ExtractParams",
    "ExtractRequest",
    "ExtractResponse",
    "ExtractedItem",
    "Item",
    "ItemError",
    "ItemResult",
    "ModelCard",
    "ModelError",
    "ModelList",
    "Multivector",
    "MuveraOptions",
    "OffsetUnit",
    "OpenAIModel",
    "OutputDtype",
    "OutputType",
    "Relation",
    "Request",
    "Response",
    "Revision",
    "Score",
    "ScoreOptions",
    "ScoreRequest",
    "ScoreResponse",
    "ScoreType",
    "Share",
    "Span",
    "Sparse",
    "Timing",
    "Usage",
    "VectorType",
    "of_ours",
]
