"""TEI's `/tokenize`, `/decode` and `/info`: what a model's tokenizer and card say."""

from typing import Annotated, Any

import pydantic
from pydantic import Field, RootModel

import sie_mcp
from sie_mcp import wire
from sie_mcp.dialects.operation import DialectBody, Texts, TokenIds
from sie_mcp.wire_fields import Text

TOKENIZE, DECODE, INFO = PATHS = ("/tokenize", "/decode", "/info")


class TokenizeRequest(DialectBody):
    """A text or several."""

    inputs: Text | Texts
    add_special_tokens: bool = True

    @property
    def texts(self) -> list[str]:
        """Every text."""
        return [self.inputs] if isinstance(self.inputs, str) else self.inputs


class Token(pydantic.BaseModel):
    """One token; `start` and `stop` are code points of the text, None for special tokens."""

    id: int
    text: str
    special: bool
    start: int | None = None
    stop: int | None = None


class TokenLists(RootModel[list[list[Token]]]):
    """One list an input."""


class DecodeRequest(DialectBody):
    """Token ids, or several lists of them."""

    ids: TokenIds | Annotated[list[TokenIds], Field(min_length=1)]
    skip_special_tokens: bool = True

    @property
    def lists(self) -> list[list[int]]:
        """Every list of ids."""
        return [self.ids] if isinstance(self.ids[0], int) else self.ids


class DecodedTexts(RootModel[list[str]]):
    """One text a list of ids."""


class Info(pydantic.BaseModel):
    """A model as TEI describes the one that it serves; what is not known is left out.

    `settings` are the worker's, as asked for and as they are in force.
    """

    model_config = pydantic.ConfigDict(protected_namespaces=())

    model_id: str
    model_sha: str | None = None
    model_type: dict[str, Any]
    max_input_length: int | None = None
    max_client_batch_size: int
    max_batch_tokens: int | None = None
    auto_truncate: bool = True
    settings: list[wire.EffectiveSetting] = []
    version: str = sie_mcp.__version__


def info_of(card: wire.ModelCard, max_items: int, settings: list[wire.EffectiveSetting]) -> Info:
    """Describe a model, and the worker that has it."""
    tokens = [int(one.effective) for one in settings if one.name == "max_batch_tokens"]
    return Info(
        max_batch_tokens=min(tokens, default=None),
        settings=settings,
        model_id=card.name,
        model_type=_model_type(card),
        max_input_length=card.max_sequence_length,
        max_client_batch_size=max_items,
    )


def _model_type(card: wire.ModelCard) -> dict[str, Any]:
    """Return TEI's word for what a model does."""
    if "encode" in card.primitives:
        pooling = card.decisions.get("pooling", "").partition(" ")[0]
        return {"embedding": {"pooling": pooling or "unknown"}}
    labels = card.labels or []
    names = {
        "id2label": {str(place): label for place, label in enumerate(labels)},
        "label2id": {label: place for place, label in enumerate(labels)},
    }
    return {"classifier" if "extract" in card.primitives else "reranker": names}
