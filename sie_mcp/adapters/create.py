"""From a checkpoint's folder to an adapter: read the recipe, fill the module, check itself."""

import importlib
from dataclasses import replace
from pathlib import Path

import torch

from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.agreement import EIGHT, HALF
from sie_mcp.adapters.any_encoder import HEADS
from sie_mcp.adapters.card import describe, is_packed, runs_whole
from sie_mcp.adapters.causal_reranker import CausalRerankerAdapter
from sie_mcp.adapters.checkpoint.read import read_recipe
from sie_mcp.adapters.classification import ClassificationAdapter
from sie_mcp.adapters.cpu_backend import CpuBackend, added_bytes
from sie_mcp.adapters.cpu_linears import Packing, pack_linears
from sie_mcp.adapters.cross_encoder import CrossEncoderAdapter
from sie_mcp.adapters.encoder_parts import make_encoder
from sie_mcp.adapters.float8 import stored_dtype, use_float8
from sie_mcp.adapters.gliclass import GliclassAdapter
from sie_mcp.adapters.gliner.adapter import GlinerAdapter
from sie_mcp.adapters.gliner.architecture import architecture_of
from sie_mcp.adapters.gliner2.adapter import Gliner2Adapter
from sie_mcp.adapters.glirel.adapter import GlirelAdapter
from sie_mcp.adapters.glirel.architecture import glirel_row
from sie_mcp.adapters.graphs import graphs_for
from sie_mcp.adapters.layers.attention import read_kernels
from sie_mcp.adapters.layers.float8_linear import FLOAT8, has_eights
from sie_mcp.adapters.loaded import Loaded
from sie_mcp.adapters.lora import Lora
from sie_mcp.adapters.lora_files import LoraPlan, load_lora, read_lora
from sie_mcp.adapters.lora_stacked import load_stacked, stacked_bytes
from sie_mcp.adapters.model import Architecture, Model
from sie_mcp.adapters.models.architectures import ARCHITECTURES
from sie_mcp.adapters.models.transformers_generic import stored_whole
from sie_mcp.adapters.models.transformers_model import (
    ARCHITECTURE,
    attach,
    stored_bytes,
)
from sie_mcp.adapters.on_meta import on_meta
from sie_mcp.adapters.path_check import with_paths
from sie_mcp.adapters.pruning import PruningAdapter
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.score_prompts import make_prompt, read_special_tokens
from sie_mcp.adapters.self_check import check
from sie_mcp.adapters.tensors import open_tensors
from sie_mcp.adapters.token_classification import TokenClassificationAdapter
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.adapters.weights import fill, flat_bytes
from sie_mcp.errors import ModelLoadFailed

__all__ = [
    "attach_lora",
    "check_dtype",
    "describe",
    "load_adapter",
    "plan_lora",
    "read_recipe",
    "weight_bytes",
]


def check_dtype(recipe: Recipe, dtype: torch.dtype) -> None:
    """Refuse a dtype that the model's hidden states outgrow.

    Raises:
        ModelLoadFailed: names those that hold them.
    """
    if dtype == torch.float16 and _row(recipe).overflows_float16:
        raise ModelLoadFailed(
            f"{recipe.name}: {recipe.architecture} overflows dtype float16; use bfloat16 or float32"
        )


def weight_bytes(recipe: Recipe, dtype: torch.dtype, backend: CpuBackend = "torch") -> int:
    """Return what the weights will take on the device, before any is read."""
    if runs_whole(recipe):
        return stored_whole(recipe, stored_dtype(dtype))
    model = _on_meta(recipe, dtype)
    added = added_bytes(model, dtype) if backend == "openvino" else 0
    dtype = stored_dtype(dtype)
    source = open_tensors(recipe.folder)
    own = flat_bytes(model, source, _row(recipe), recipe, dtype)
    own += stacked_bytes(source, recipe, _row(recipe), dtype) + added
    return own + (0 if is_packed(recipe) else stored_bytes(source, recipe, dtype))


def load_adapter(
    recipe: Recipe,
    *,
    device: torch.device,
    dtype: torch.dtype,
    packing: Packing | None = None,
    backend: CpuBackend = "torch",
    paths: frozenset[str] = frozenset(),
) -> Adapter:
    """Load the weights and return an adapter that has passed its self-check.

    Args:
        recipe: What the checkpoint is.
        device: Where it goes.
        dtype: What weights become; float8_e4m3fn: those of linear layers, others bfloat16. For
            int8 bfloat16 too, and `packing` rounds them.
        packing: What linear layers on a CPU are replaced by; None: nothing.
        backend: "openvino": it computes the encoder, of a model that it has not refused.
        paths: Faster ways that are wished for; those that pass their check are taken.

    Raises:
        ModelLoadFailed: a dtype too small, missing, unknown or wrong tensors, or numbers that fail
            the check.
    """
    check_dtype(recipe, dtype)
    read_kernels(device)
    if runs_whole(recipe):
        # Only here: who serves no images need not have Pillow.
        generic = importlib.import_module("sie_mcp.adapters.generic.load")
        own_dtype, card = stored_dtype(dtype), describe(recipe)
        adapter: Adapter = generic.load_generic(recipe, card, device=device, dtype=own_dtype)
        return adapter
    model = _on_meta(recipe, dtype)
    computed, dtype = dtype, stored_dtype(dtype)
    source = open_tensors(recipe.folder)
    kept = frozenset() if is_packed(recipe) else attach(model, recipe, dtype)
    loras = load_stacked(source, recipe, _row(recipe), model, dtype=dtype)
    weights = fill(model, source, _row(recipe), recipe, device=device, dtype=dtype, kept=kept)
    with weights.freed_on_error():
        if backend == "openvino":
            # Only here: who does not ask for it need not have it.
            encoder = importlib.import_module("sie_mcp.adapters.openvino_encoder")
            encoder.use_openvino(model, weights, computed)
        elif packing is not None and device.type == "cpu" and is_packed(recipe):
            pack_linears(model, recipe.architecture, weights, packing)
        tokenizer = TextTokenizer.from_folder(
            recipe.tokenizer_folder or recipe.folder,
            lower_case=recipe.do_lower_case,
            drops_punctuation=recipe.drops_punctuation,
            markers=recipe.multivector.markers,
            added=recipe.added_tokens,
        )
        card = describe(recipe)
        own = _adapter(Loaded(recipe, model.eval(), tokenizer, card, weights, loras))
        tolerance = EIGHT if has_eights(model) else None
        check(own, device, tolerance)
        if not paths or device.type != "cuda" or not is_packed(recipe):
            return own
        if "graphs" in paths and _row(recipe).records:
            model.graphs = graphs_for(recipe.name, recipe.config, model.encoder, weights)
        if "graphs" in paths and model.vision is not None:
            settings = recipe.vision_config
            model.image_graphs = graphs_for(recipe.name, settings, model.vision, weights)
        return with_paths(own, device, paths, tolerance or HALF)


def plan_lora(name: str, folder: Path, base: Recipe) -> LoraPlan:
    """Read a low-rank adapter's settings and check that it belongs to the base.

    Raises:
        ModelLoadFailed: it does not, or does what is not served.
    """
    return read_lora(name, folder, base, _row(base))


def attach_lora(plan: LoraPlan, *, device: torch.device, dtype: torch.dtype) -> Lora:
    """Read an adapter's tensors onto the device.

    Raises:
        ModelLoadFailed: a tensor that does not fit.
    """
    return load_lora(plan, _row(plan.base), device=device, dtype=dtype)


def _row(recipe: Recipe) -> Architecture:
    if recipe.gliner is not None:
        return architecture_of(recipe.architecture, recipe.gliner)
    if recipe.glirel is not None:
        return glirel_row(recipe.architecture, recipe.glirel)
    if not is_packed(recipe):
        return ARCHITECTURE
    row = ARCHITECTURES[recipe.architecture]
    return replace(row, heads={**row.heads, **HEADS})


def _on_meta(recipe: Recipe, dtype: torch.dtype) -> Model:
    """Build the module without memory for its weights."""
    try:
        with on_meta():
            model = Model(recipe, _row(recipe))
    except KeyError as error:
        raise ModelLoadFailed(f"{recipe.name}: config.json has no {error}") from error
    except (TypeError, ValueError, RuntimeError) as error:
        raise ModelLoadFailed(f"{recipe.name}: config.json does not fit: {error}") from error
    if dtype == FLOAT8 and is_packed(recipe):
        use_float8(model, model.encoder, recipe.architecture)
    return model


def _adapter(loaded: Loaded) -> Adapter:
    recipe, tokenizer = loaded.recipe, loaded.tokenizer
    if recipe.gliner is not None:
        other = recipe.gliner.label_encoder
        labels = TextTokenizer.from_folder(other.tokenizer_folder) if other else None
        return GlinerAdapter(loaded, labels)
    if recipe.glirel is not None:
        return GlirelAdapter(loaded)
    if recipe.logit_score is not None:
        special = read_special_tokens(recipe.folder)
        prompt = make_prompt(recipe.logit_score, tokenizer, special)
        return CausalRerankerAdapter(loaded, prompt)
    if "pruning" in recipe.tasks:
        return PruningAdapter(loaded)
    if recipe.tasks[0] == "cross_encoder":
        return CrossEncoderAdapter(loaded)
    if recipe.tasks[0] == "classification":
        return ClassificationAdapter(loaded)
    if recipe.tasks[0] == "zero_shot":
        return GliclassAdapter(loaded)
    if recipe.tasks[0] == "structure":
        return Gliner2Adapter(loaded)
    if recipe.tasks[0] == "token_classification":
        return TokenClassificationAdapter(loaded)
    return make_encoder(loaded, _row(recipe))
