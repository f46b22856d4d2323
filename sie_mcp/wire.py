"""The contract between client and worker: request and response types of the three primitives.

Bodies travel as JSON or MessagePack (`encode_body`, `decode_body`); arrays are numpy arrays in
MessagePack (the msgpack-numpy map form, keys as bytes) and nested lists in JSON.
Nothing here knows HTTP, models or torch.
"""

from typing import Annotated, Any, Literal

import pydantic
from pydantic import AliasChoices, ConfigDict, Field

from sie_mcp.wire_fields import Array, ModelState, NonNegative, Text
from sie_mcp.wire_images import DetectedObject, ImageList
from sie_mcp.wire_memory import ModelMemory
from sie_mcp.wire_structure import Record, Structure

VectorType = Literal["dense", "sparse", "multivector"]
OutputType = VectorType | Literal["muvera"]
OutputDtype = Literal["float32", "float16", "int8", "uint8", "binary", "ubinary"]
ScoreType = Literal["logit", "probability", "similarity"]
OffsetUnit = Literal["code_point", "utf16", "byte"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Body(pydantic.BaseModel):
    """Base of every body: unknown fields are refused, arrays are allowed."""

    model_config = ConfigDict(
        extra="forbid", arbitrary_types_allowed=True, populate_by_name=True, protected_namespaces=()
    )


class Item(Body):
    """One thing to encode, score or extract from: a text, its token ids, or an image.

    `content` is accepted for `text`, and `image`, for one that stands alone, for `images`.
    `input_ids` are those that the model's own tokenizer makes of a text.
    """

    id: Text | None = None
    text: Text | None = Field(default=None, validation_alias=AliasChoices("text", "content"))
    input_ids: list[int] | None = Field(default=None, min_length=1)
    images: ImageList | None = Field(
        default=None, min_length=1, validation_alias=AliasChoices("images", "image")
    )
    metadata: dict[str, Any] | None = None


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
    muvera: MuveraOptions = MuveraOptions()
    lora: Text | None = None


class EncodeParams(Body):
    """What to return for each item; `output_types` defaults to what the model is made for."""

    output_types: list[OutputType] | None = Field(default=None, min_length=1)
    instruction: Text | None = None
    output_dtype: OutputDtype = "float32"
    options: EncodeOptions = EncodeOptions()


class EncodeRequest(Body):
    """Body of `POST /v1/encode/{model}`."""

    items: list[Item] = Field(min_length=1)
    params: EncodeParams = EncodeParams()


class ItemError(Body):
    """Why one item has no result; the other items are not affected."""

    code: str
    message: str


class Timing(Body):
    """Where a request's time went, in milliseconds."""

    total_ms: float = 0.0
    queue_ms: float = 0.0
    tokenization_ms: float = 0.0
    inference_ms: float = 0.0
    postprocessing_ms: float = 0.0


class Usage(Body):
    """Tokens read by the model, special tokens and patches of images included."""

    input_tokens: int = 0


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


class ItemResult(Body):
    """What every per-item result carries. `num_tokens` counts what the model really read."""

    id: str | None = None
    num_tokens: int = 0
    truncated: bool = False
    error: ItemError | None = None


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
    timing: Timing = Timing()
    usage: Usage = Usage()
    revision: str | None = Field(default=None, exclude=True)


class ScoreOptions(Body):
    """How to score. `raw_scores` returns logits, before any activation.

    `weights` says how much each kind of vector counts, for models that compare vectors.
    `score_mode` sums or averages over the query's token vectors; None: as the checkpoint says.
    `label` is whose probability a classifier of several labels scores by; None: the model's own, or
    with `best_label` whichever is highest, where it has none.
    """

    raw_scores: bool = False
    weights: dict[VectorType, NonNegative] | None = Field(default=None, min_length=1)
    score_mode: Literal["sum", "mean"] | None = None
    label: Text | None = None
    best_label: bool = False
    lora: Text | None = None
    truncate: bool = True
    max_length: int | None = Field(default=None, ge=1)


class ScoreRequest(Body):
    """Body of `POST /v1/score/{model}`."""

    query: Item
    items: list[Item] = Field(min_length=1)
    instruction: Text | None = None
    options: ScoreOptions = ScoreOptions()


class Score(Body):
    """One item's score. `index` is its place in the request, `rank` its place by score, from 0.

    `label_scores` are those of all labels, where the model's head has several.
    """

    item_id: str
    index: int
    # None is left out of a body.
    score: float | None = None
    rank: int
    label_scores: dict[str, float] | None = None
    num_tokens: int = 0
    truncated: bool = False
    error: ItemError | None = None


class ScoreResponse(Body):
    """Answer of score: highest first, ties by index, items with an error last."""

    model: str
    query_id: str | None = None
    scores: list[Score]
    score_type: ScoreType
    timing: Timing = Timing()
    usage: Usage = Usage()


# A page of small print; a caption takes 20.
MAX_NEW_TOKENS = 1_024


class ExtractOptions(Body):
    """How to extract. `threshold` None means the model's own.

    For classifications: `top_k` keeps the best labels, `raw_scores` returns logits. For labels of
    the caller's own: `hypothesis_template` makes a sentence of a label, which stands at its {}
    ("This example is {}." for texts, "This is a photo of {}." for images, where it is None);
    `multi_label` judges each label alone, so that several or none may hold. For pruners, which are
    asked by `instruction`: `threshold` is from where on a token is kept, `highlight_threshold` from
    where on it is highlighted; `profile` names thresholds of the model's own; `unit` is what they
    judge: each token, neighbours of one label joined, or each sentence by the mean of its tokens.
    None: as the model was made for.

    For entities: `offset_unit` is what start, end and read_to count, of UTF-8 where bytes; entities
    of labels of the caller's own score over `threshold`, or over that of their label in
    `thresholds`. `overlap`: "flat", the default, keeps the better of two that overlap; "nested"
    drops only what crosses; "longest" keeps the longer; "all" keeps all. With `multi_label` one
    place can have several labels. `structure` is what else to look for, or instead of labels.
    For images: `top_k` is also how many objects; `max_tokens` how long a text about one may be.
    """

    threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    thresholds: dict[Text, Share] | None = None
    overlap: Literal["flat", "nested", "longest", "all"] | None = None
    offset_unit: OffsetUnit = "code_point"
    highlight_threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    profile: Text | None = None
    unit: Literal["token", "sentence"] | None = None
    windowing: bool = True
    top_k: int | None = Field(default=None, ge=1)
    multi_label: bool | None = None
    hypothesis_template: Text | None = None
    lora: Text | None = None
    raw_scores: bool = False
    structure: Structure | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_NEW_TOKENS)


class ExtractParams(Body):
    """What to extract; `labels` None means every label the model knows."""

    labels: list[Text] | None = Field(default=None, min_length=1)
    instruction: Text | None = None
    options: ExtractOptions = ExtractOptions()


class ExtractRequest(Body):
    """Body of `POST /v1/extract/{model}`."""

    items: list[Item] = Field(min_length=1)
    params: ExtractParams = ExtractParams()


class Entity(Body):
    """A piece of the item: its text[start:end], in code points, equals `text`."""

    text: str
    label: str
    score: float
    start: int
    end: int
    bbox: list[float] | None = None


class Relation(Body):
    """A typed link between two entities, given by their texts, and their places if known."""

    head: str
    tail: str
    relation: str
    score: float
    head_start: int | None = None
    head_end: int | None = None
    tail_start: int | None = None
    tail_end: int | None = None


class Classification(Body):
    """A label for the whole item; `task` is the question that it answers, where several are."""

    label: str
    score: float
    task: str | None = None


class ExtractedItem(ItemResult):
    """What was found in one item. `read_to` is the character where reading stopped, if it did.

    Of an image: `objects`, the surest first, or the `text` that describes it or stands in it.
    """

    entities: list[Entity] = []
    relations: list[Relation] = []
    classifications: list[Classification] = []
    records: list[Record] = []
    objects: list[DetectedObject] = []
    text: str | None = None
    read_to: int | None = None


class ExtractResponse(Body):
    """Answer of extract: one entry an item, in the order sent."""

    model: str
    items: list[ExtractedItem]
    timing: Timing = Timing()
    usage: Usage = Usage()


Request = EncodeRequest | ScoreRequest | ExtractRequest
Response = EncodeResponse | ScoreResponse | ExtractResponse


class ModelError(Body):
    """Why the last load failed."""

    code: str
    message: str
    attempts: int
    permanent: bool


class ModelCard(Body):
    """One entry of the model listing; `decisions` says which file decided what (pooling, …).

    `id`, `object`, `created` and `owned_by` are for clients of OpenAI.

    `loras` are the low-rank adapters that the checkpoint itself holds; `lora` of a request can also
    name others. `residents` is its account on each device where it is, or is coming. `revision`
    changes with anything that its numbers depend on: files, settings, dtype, program; None: not up.
    """

    name: str
    id: str | None = None
    object: Literal["model"] | None = None
    created: int | None = None
    owned_by: str | None = None
    inputs: list[str] = ["text"]
    outputs: list[str] = []
    primitives: list[str] = []
    dims: dict[str, int] = {}
    labels: list[str] | None = None
    loras: list[str] = []
    loaded: bool = False
    state: ModelState = "available"
    last_error: ModelError | None = None
    max_sequence_length: int | None = None
    packed: bool | None = None
    revision: str | None = None
    size_bytes: int | None = None
    resident_bytes: int = 0
    host_bytes: int = 0
    device: str | None = None
    residents: list[ModelMemory] = []
    licence: str | None = None
    description: str | None = None
    decisions: dict[str, str] = {}
    profiles: dict[str, Any] = {}


class Revision(Body):
    """Answer of `GET /v1/revision/{model}`: None while no device has the model."""

    model: str
    revision: str | None = None


class OpenAIModel(Body):
    """A model as OpenAI lists it; `created` is not known."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "sie-mcp"


class EffectiveSetting(Body):
    """A setting of the worker: as asked for, as it is in force, and why where they differ."""

    name: str
    requested: str
    effective: str
    reason: str | None = None


class ModelList(Body):
    """Answer of `GET /v1/models`; `memory` is the whole account, in bytes.

    `object` and `data` are the same for clients of OpenAI. `settings` are the worker's.
    """

    object: Literal["list"] | None = None
    data: list[OpenAIModel] | None = None
    models: list[ModelCard]
    defaults: dict[str, str] = {}
    memory: dict[str, int] = {}
    settings: list[EffectiveSetting] = []
