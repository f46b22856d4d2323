"""Any encoder that transformers has, on padded blocks: for families that we do not re-implement.

Packed ids in, one row a token out, like every architecture here, but not packed inside. Families
that are known to look past padding exactly run in blocks of similar length; all others in blocks
of one length, where there is nothing to look past. Positions are the library's own.
"""

import inspect
import json
import logging
import math
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.buckets import MIN_BUCKET_FILL, Bucket, make_buckets
from sie_mcp.adapters.flat import ALIGNMENT
from sie_mcp.adapters.layers.positions import padding_id
from sie_mcp.adapters.model import Architecture, Head, Model
from sie_mcp.adapters.models.transformers_library import is_half, load_module
from sie_mcp.adapters.models.transformers_vocabulary import take_head
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.tensors import TensorSource
from sie_mcp.errors import ModelLoadFailed

logger = logging.getLogger(__name__)

TRANSFORMERS = "transformers"
_HEAD = Head(build=lambda *_: nn.Identity(), renames=())

# The library reads the tensors and holds the heads; projections are ours.
ARCHITECTURE = Architecture(
    build=lambda _: nn.Identity(),
    renames=(),
    ignored=(r".*",),
    heads={"sparse": _HEAD, "cross_encoder": _HEAD, "token_classification": _HEAD},
    serves_lora=False,
)
# Families whose numbers padding does not change, each held to that by the tests of parity. Others
# (convolutions, landmarks, Fourier transforms, summaries of the last place) see it.
LOOK_PAST_PADDING = frozenset(
    {
        "albert", "bart", "data2vec-text", "deberta", "ernie", "gpt2", "megatron-bert",
        "mobilebert", "mt5", "rembert", "roformer",
    }
)  # fmt: skip
# Families whose positions start past the padding token, as RoBERTa's do.
_POSITIONS_PAST_PADDING = frozenset(
    {
        "data2vec-text", "esm", "ibert", "lilt", "longformer", "luke", "roberta-prelayernorm",
        "xlm-roberta-xl", "xmod",
    }
)  # fmt: skip
# Families without a number of types in config.json whose tokenizers give them nevertheless.
_TYPED = frozenset({"xlnet"})


class TransformersEncoder(nn.Module):
    """A module of transformers behind packed ids.

    Args:
        module: From the library, in evaluation mode.
        min_fill: How much of a block's length its shortest sequence has; 1: no padding.
        has_token_types: The module was trained with the tokenizer's type ids.
    """

    def __init__(self, module: Any, *, min_fill: float, has_token_types: bool) -> None:
        super().__init__()
        self.module = module
        takes = inspect.signature(module.forward).parameters
        self.has_mask = "attention_mask" in takes
        self.has_token_types = has_token_types and "token_type_ids" in takes
        self.min_fill = min_fill if self.has_mask else 1.0
        # None where nothing reads it.
        self.filler = getattr(module.config, "pad_token_id", None) or 0

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        """Return a row a token: hidden states or logits.

        Logits of a whole sequence stand at its first token, before zeros.

        Raises:
            RuntimeError: the library cannot run it, or gives something else.
        """
        attended = batch.attended or batch.lengths
        device = batch.input_ids.device
        out: torch.Tensor | None = None
        for bucket in make_buckets(batch.lengths, attended, device, min_fill=self.min_fill):
            block = self._run(bucket, batch)
            if out is None:
                out = block.new_empty(batch.num_tokens, block.shape[-1])
            out[bucket.rows] = block.flatten(0, 1)[bucket.places]
        assert out is not None
        return out

    def _run(self, bucket: Bucket, batch: PackedBatch) -> torch.Tensor:
        """Return a bucket's rows as a block, `(num_seqs, length, width)`."""
        assert self.has_mask or bucket.all_seen
        shape = bucket.num_seqs, bucket.length
        inputs = {"input_ids": self._to_block(batch.input_ids, bucket, self.filler)}
        if self.has_mask:
            inputs["attention_mask"] = bucket.key_mask.long()
        if self.has_token_types:
            inputs["token_type_ids"] = self._to_block(batch.token_type_ids, bucket, 0)
        try:
            output = self.module(**inputs)
            rows: torch.Tensor = output["logits" if "logits" in output else "last_hidden_state"]
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise RuntimeError(f"transformers refused the batch: {error}") from error
        if rows.dim() == 2 and len(rows) == bucket.num_seqs:
            first, rows = rows, rows.new_zeros(*shape, rows.shape[-1])
            rows[:, 0] = first
        if rows.dim() != 3 or rows.shape[:2] != shape:
            raise RuntimeError(f"the model gives {tuple(rows.shape)} for texts of shape {shape}")
        return rows

    def _to_block(self, ids: torch.Tensor, bucket: Bucket, padding: int) -> torch.Tensor:
        block = torch.full_like(bucket.gather, padding)
        block[bucket.places] = ids[bucket.rows]
        return block.view(bucket.num_seqs, bucket.length)


def architecture_of(model_type: str) -> Architecture:
    """Return the row of a family: all are alike but for where positions start."""
    if model_type not in _POSITIONS_PAST_PADDING:
        return ARCHITECTURE
    return replace(ARCHITECTURE, padding_id=padding_id)


def stored_bytes(source: TensorSource, recipe: Recipe, dtype: torch.dtype) -> int:
    """Return what the checkpoint's tensors will take on the device, by their headers alone."""
    is_short = is_half(recipe.tasks[0], is_encoder_decoder=recipe.config["is_encoder_decoder"])
    return sum(
        math.prod(source.shape(name)) * dtype.itemsize + ALIGNMENT
        for name in source.names()
        if not (is_short and "decoder" in name.split(".")[:2])
    )


def attach(model: Model, recipe: Recipe, dtype: torch.dtype) -> frozenset[str]:
    """Load the module of transformers to the host and make it the model's encoder, with its heads.

    Returns the parts of parameter names that are to stay float32.

    Raises:
        ModelLoadFailed: wrong files, or a module that does not come apart where we need it to.
    """
    module = load_module(recipe)
    # T5's family overflows in half of its linear layers.
    kept = module._keep_in_fp32_modules if dtype == torch.float16 else None
    encoder = module
    if is_half(recipe.tasks[0], is_encoder_decoder=module.config.is_encoder_decoder):
        encoder = module.get_encoder()
    elif recipe.tasks[0] == "sparse":
        encoder = module.base_model
        model.heads["sparse"] = take_head(recipe.name, module)
    model_type = str(recipe.config["model_type"])
    is_blind = model_type in LOOK_PAST_PADDING and not recipe.runs_own_code
    model.encoder = TransformersEncoder(
        encoder,
        min_fill=MIN_BUCKET_FILL if is_blind else 1.0,
        has_token_types=_has_token_types(recipe, module.config),
    )
    hides = recipe.multivector.expand_queries_to and not recipe.multivector.attend_to_expansion
    if hides and not model.encoder.has_mask:
        raise ModelLoadFailed(
            f"{recipe.name}: query expansion must be hidden by an attention mask, and {model_type} "
            "takes none"
        )
    logger.info(
        "not packed model=%s model_type=%s blocks=%s: transformers runs it",
        recipe.name,
        model_type,
        "padded" if is_blind else "of one length",
    )
    return frozenset(kept or ())


def _has_token_types(recipe: Recipe, config: Any) -> bool:
    """Whether the library's tokenizer would hand type ids to the model."""
    try:
        own = json.loads((recipe.folder / "tokenizer_config.json").read_text("utf-8"))
    except (OSError, ValueError):
        own = {}
    if "token_type_ids" not in own.get("model_input_names", ["token_type_ids"]):
        return False
    num_types = getattr(config, "type_vocab_size", None)
    return config.model_type in _TYPED if num_types is None else num_types > 1
