"""GLiREL checkpoints: glirel_config.json, the encoder that it names, and the tokenizer.

Source: model.py and base.py of the glirel package. A key that nobody here knows may change what the
model computes, and is refused.
"""

from pathlib import Path
from typing import Any

from sie_mcp.adapters.checkpoint.backbones import read_backbone
from sie_mcp.adapters.checkpoint.files import Files
from sie_mcp.adapters.gliner.architecture import ENCODER
from sie_mcp.adapters.glirel.architecture import TASK
from sie_mcp.adapters.glirel.rule import FIRST, LAST, GlirelRule
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.errors import ModelLoadFailed

CONFIG = "glirel_config.json"

# Key -> values that are served; first of all, where a file may leave it out, what that means.
_SERVED: dict[str, tuple[Any, ...]] = {
    # Not "mean": release 1.2.1 drops the mean that it computes and goes on with the sum.
    "subtoken_pooling": ("first", "last"),
    "rel_mode": ("marker",),
    "span_marker_mode": ("markerv1", "markerv2"),
    "label_embed_strategy": ("ent_token", "label", "both"),
    "scorer": ("dot", "dot_thresh", "dot_norm"),
    "add_entity_markers": (False, True, None),
    "refine_relation": (False, True, None),
    "refine_prompt": (False, True, None),
    "entity_start_token": (FIRST, None),
    "entity_end_token": (LAST, None),
}
_OPTIONAL = frozenset(list(_SERVED)[5:])
_COUNTS = ("hidden_size", "max_len")
_READ = "model_name hidden_size max_len max_entity_pair_distance ffn_mul"
# What trained the model, and the order of relations, which is the caller's here.
_TRAINING = """
    alpha coref_classifier coref_loss_weight coreference_label dataset_name device dropout
    early_stopping_delta early_stopping_patience eval_batch_size eval_data eval_every
    eval_threshold fine_tune fixed_relation_types gamma gradient_accumulation log_dir loss_func
    lr_encoder lr_others max_neg_type_ratio max_saves max_types max_width name negative_weight
    num_layers_freeze num_steps num_train_rel_types num_unseen_rel_types positive_weight prev_path
    random_drop root_dir save_total_limit scheduler scheduler_type seed shuffle_types size_sup
    threshold_search_metric top_k train_batch_size train_data val_data val_data_dir warmup_ratio
    weight_decay_encoder weight_decay_other
"""
_KNOWN = frozenset(f"{_READ} {_TRAINING}".split()) | _SERVED.keys()


def read_glirel(name: str, files: Files, tokenizer_folder: Path | None) -> Recipe:
    """Read a folder with a glirel_config.json.

    Args:
        name: What the caller asked for.
        files: The folder.
        tokenizer_folder: Where the tokenizer lies that the folder lacks.

    Raises:
        ModelLoadFailed: a setting, an encoder or a tokenizer that is not served.
    """
    settings = files.read(CONFIG)
    _check(settings)
    backbone = read_backbone(name, files, settings, tokenizer_folder, task=TASK, source_name=CONFIG)
    files.decide("scorer", settings["scorer"], CONFIG)
    return Recipe(
        name,
        files.folder,
        backbone.architecture,
        backbone.config,
        (TASK,),
        backbone.max_length,
        tensor_prefix=ENCODER,
        tokenizer_folder=backbone.tokenizer_folder,
        glirel=_rule(settings),
    )


def _rule(settings: dict[str, Any]) -> GlirelRule:
    distance = settings["max_entity_pair_distance"]
    return GlirelRule(
        hidden_size=settings["hidden_size"],
        max_words=settings["max_len"],
        pooling=settings["subtoken_pooling"],
        span_mode=settings["span_marker_mode"],
        label_read=settings["label_embed_strategy"],
        scorer=settings["scorer"],
        marks_entities=bool(settings.get("add_entity_markers")),
        max_distance=None if distance is None else int(distance),
        refines_pairs=bool(settings.get("refine_relation")),
        refines_labels=bool(settings.get("refine_prompt")),
        ffn_mul=int(settings.get("ffn_mul", 4)),
    )


def _check(settings: dict[str, Any]) -> None:
    for key, value in settings.items():
        if key not in _KNOWN:
            raise ModelLoadFailed(f"{CONFIG}: {key} {value!r} is not known here")
    for key, served in _SERVED.items():
        value = settings.get(key)
        if value not in served and not (key in _OPTIONAL and key not in settings):
            known = ", ".join(repr(one) for one in served)
            raise ModelLoadFailed(f"{CONFIG}: {key} {value!r} is not supported; supported: {known}")
    for key in _COUNTS:
        value = settings.get(key)
        if not (isinstance(value, int) and value > 0):
            raise ModelLoadFailed(f"{CONFIG}: {key} {value!r} must be a number over 0")
    if "max_entity_pair_distance" not in settings:
        raise ModelLoadFailed(f"{CONFIG}: it has no max_entity_pair_distance; null means no limit")
