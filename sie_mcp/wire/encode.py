"""Bodies of encode: items in, vectors out."""

from typing import Literal

from pydantic import Field

from sie_mcp.wire.items import Body, Item, ItemResult, Timing, Usage, VectorType
from sie_mcp.wire_fields import Array, Text

# Where an answer's revision travels.
REVISION_HEADER = "X-SIE-Model-Revision"

OutputType = VectorType | Literal["muvera"]
OutputDtype = Literal["float32", "float16", "int8", "uint8", "binary", "ubinary"]


class MuveraOptions(Body):
    """Size of the fixed-size form of token vectors: repetitions * 2^num_bits * dims numbers."""

    repetitions: int = Field(default=20, ge=1, le=100)
    num_bits: int = Field(default=5, ge=0, le=10)
    dims: int = Field(default=16, ge=1, le=256)
    seed: int = Field(default=42, ge=0)


class EncodeOptions(Body):
    """How to encode. None means: as the checkpoint's own files say.

    `is_query` is the items' role: a query, a document, or none, which has the default prompt alone
    and is otherwise read as a document. `max_active_dims` keeps the heaviest entries of a sparse
    vector. `quantization_ranges` are the least and the greatest value of each dimension, two rows,
    for int8 and uint8; without them each vector has its own `scale`. `lora` names a low-rank
    adapter: one of the checkpoint's own (`ModelCard.loras`), a hub id or a folder; "" is none, also
    where the items' role has one.
    """

    is_query: bool | None = None
    prompt: Text | None = None
    prompt_name: str | None = None
    dimensions: int | None = Field(default=None, ge=1)
    normalize: bool | None = None
    truncate: bool = True
    max_length: int | None = Field(default=None, ge=1)
    max_active_dims: int | None = Field(default=None, ge=1)
    quantization_ranges: list[list[float]] | None = Field(default=None, min_length=2, max_length=2)
    muvera: MuveraOptions = Field(default_factory=MuveraOptions)
    lora: Text | None = None


class EncodeParams(Body):
    """What to return for each item; `output_types` defaults to what the model is made for."""

    output_types: list[OutputType] | None = Field(default=None, min_length=1)
    instruction: Text | None = None
    output_dtype: OutputDtype = "float32"
    options: EncodeOptions = Field(default_factory=EncodeOptions)


class EncodeRequest(Body):
    """Body of `POST /v1/encode/{model}`."""

    items: list[Item] = Field(min_length=1)
    params: EncodeParams = Field(default_factory=EncodeParams)


class Dense(Body):
    """One vector, `(dims,)`.

    With `scale` the numbers were scale * values for int8, scale * (values - 128) for uint8.
    """

    dims: int
    dtype: OutputDtype = "float32"
    values: Array
    scale: float | None = None


class Sparse(Body):
    """A sparse vector over `dims` vocabulary entries: int32 indices ascending, float weights."""

    dims: int
    dtype: OutputDtype = "float32"
    indices: Array
    values: Array


class Multivector(Body):
    """One vector a token, `(num_tokens, token_dims)`."""

    token_dims: int
    num_tokens: int
    dtype: OutputDtype = "float32"
    values: Array


class EncodedItem(ItemResult):
    """One item's vectors; those not asked for are None."""

    dense: Dense | None = None
    sparse: Sparse | None = None
    multivector: Multivector | None = None
    muvera: Dense | None = None


class EncodeResponse(Body):
    """Answer of encode: one entry an item, in the order sent.

    `revision` is the model's, and its adapter's; it travels in the header X-SIE-Model-Revision.
    """

    model: str
    items: list[EncodedItem]
    timing: Timing = Field(default_factory=Timing)
    usage: Usage = Field(default_factory=Usage)
    revision: str | None = Field(default=None, exclude=True)
