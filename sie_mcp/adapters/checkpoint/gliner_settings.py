"""The keys of gliner_config.json: what is served, what only training read, what is refused.

A key that nobody here knows may change what the model computes, and is refused.
"""

from collections.abc import Mapping
from typing import Any

from sie_mcp.errors import ModelLoadFailed

CONFIG = "gliner_config.json"

# Key -> values that are served; those of other keys are read elsewhere.
_SERVED: dict[str, tuple[Any, ...]] = {
    "span_mode": ("marker", "markerV0", "markerV1", "token_level", "token-level"),
    "subtoken_pooling": ("first", "last", "mean", "max"),
    "words_splitter_type": ("whitespace",),
    "fuse_layers": (False, None),
    "represent_spans": (False, None),
    "span_encoder_config": (None,),
    "precomputed_prompts_mode": (False, None),
    "labels_decoder": (None, ""),
    "labels_decoder_config": (None,),
    "decoder_config": (None,),
    "relations_layer": (None, "none", "dot", "mlp", "bilinear", "gcn", "gat"),
    "triples_layer": (None, "DistMult", "DistMA", "ComplEx"),
    "embed_rel_token": (True, False),
    "embed_ent_token": (True, False),
    "model_type": (
        "gliner",
        "gliner_uni_encoder_span",
        "gliner_uni_encoder_token",
        "gliner_bi_encoder_span",
        "gliner_bi_encoder_token",
        "gliner_uni_encoder_span_relex",
        "gliner_uni_encoder_token_relex",
    ),
}
_READ = """
    max_width hidden_size vocab_size class_token_index max_types max_len model_name ent_token
    sep_token num_rnn_layers encoder_config labels_encoder labels_encoder_config
    post_fusion_schema num_post_fusion_layers rel_token rel_token_index
"""
# Positive numbers.
_COUNTS = ("max_width", "hidden_size", "max_types", "max_len")
# What trained the model, and other models' settings where they are not used.
_TRAINING = """
    adjacency_loss_coef augment_add_other_prob augment_data_prob augment_ent_drop_prob
    augment_rel_drop_prob blank_entity_prob decoder_loss_coef decoder_mode dropout
    eval_batch_size eval_every fine_tune freeze_token_rep full_decoder_context gpu
    gradient_accumulation_steps id_to_classes label_smoothing log_dir loss_alpha loss_gamma
    loss_prob_margin loss_reduction lr_encoder lr_others masking max_grad_norm max_neg_type_ratio
    name neg_spans_ratio negatives num_epochs num_steps num_train_rand_neg optimizer prev_path
    random_drop rel_id_to_classes relation_loss_coef root_dir run_time
    save_total_limit scheduler_type shuffle_types size_sup span_loss_coef token_loss_coef
    train_batch_size train_data val_data val_data_dir warmup_ratio warmup_steps
    weight_decay_encoder weight_decay_other
"""
# What the library writes into every config of its own.
_LIBRARY = """
    _attn_implementation _attn_implementation_autoset _commit_hash _name_or_path
    add_cross_attention architectures attn_implementation bad_words_ids begin_suppress_tokens
    bos_token_id chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id
    diversity_penalty do_sample dtype early_stopping encoder_no_repeat_ngram_size eos_token_id
    exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id
    id2label is_decoder is_encoder_decoder label2id length_penalty max_length min_length
    no_repeat_ngram_size num_beam_groups num_beams num_labels num_return_sequences
    output_attentions output_hidden_states output_scores pad_token_id prefix problem_type
    pruned_heads remove_invalid_values repetition_penalty return_dict return_dict_in_generate
    sep_token_id suppress_tokens task_specific_params temperature tf_legacy_loss
    tie_encoder_decoder tie_word_embeddings tokenizer_class top_k top_p torch_dtype torchscript
    transformers_version typical_p use_bfloat16 use_cache
"""
_KNOWN = frozenset(f"{_READ} {_TRAINING} {_LIBRARY}".split()) | _SERVED.keys()

_DEBERTA_V3: dict[str, Any] = {
    "model_type": "deberta-v2",
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "layer_norm_eps": 1e-7,
    "max_relative_positions": -1,
    "max_position_embeddings": 512,
    "position_biased_input": False,
    "type_vocab_size": 0,
    "hidden_act": "gelu",
}


def _deberta(hidden_size: int, num_layers: int, num_heads: int) -> dict[str, Any]:
    sizes = {
        "hidden_size": hidden_size,
        "num_hidden_layers": num_layers,
        "num_attention_heads": num_heads,
        "intermediate_size": 4 * hidden_size,
    }
    return _DEBERTA_V3 | sizes


# Encoders that older checkpoints name and do not describe.
BACKBONES: dict[str, dict[str, Any]] = {
    "microsoft/deberta-v3-xsmall": _deberta(384, 12, 6),
    "microsoft/deberta-v3-small": _deberta(768, 6, 12),
    "microsoft/deberta-v3-base": _deberta(768, 12, 12),
    "microsoft/deberta-v3-large": _deberta(1024, 24, 16),
    "microsoft/mdeberta-v3-base": _deberta(768, 12, 12),
}


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse what would change the numbers and is not computed here.

    Raises:
        ModelLoadFailed: names the key, its value, and what is served.
    """
    for key, value in settings.items():
        if key not in _KNOWN:
            raise ModelLoadFailed(f"{CONFIG}: {key} {value!r} is not known here")
        if key in _SERVED and value not in _SERVED[key]:
            known = ", ".join(repr(one) for one in _SERVED[key])
            raise ModelLoadFailed(f"{CONFIG}: {key} {value!r} is not supported; supported: {known}")
        if key in _COUNTS and not (isinstance(value, int) and value > 0):
            raise ModelLoadFailed(f"{CONFIG}: {key} {value!r} must be a number over 0")
    if settings.get("labels_encoder") and settings.get("post_fusion_schema"):
        raise ModelLoadFailed(
            f"{CONFIG}: post_fusion_schema {settings['post_fusion_schema']!r} of a bi-encoder is "
            "not supported; supported: none"
        )
    is_linking = str(settings.get("model_type")).endswith("_relex")
    if is_linking and settings.get("relations_layer") is None:
        raise ModelLoadFailed(
            f"{CONFIG}: model_type {settings['model_type']!r} has no relations_layer"
        )
    if settings.get("relations_layer") is not None and settings.get("labels_encoder"):
        raise ModelLoadFailed(f"{CONFIG}: relations_layer of a bi-encoder is not supported")
