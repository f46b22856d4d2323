"""Rows of the decoders: causal or not, windows, and every kind of scaling of positions."""

from tests.parity.row import BERT, Row, tasks

# Two queries share a key; heads are wider than hidden_size / num_heads where the family allows it.
_DECODER = {**BERT, "num_key_value_heads": 2}
# Words of the same part of a long text turn apart only when theta is small.
_ENDS = {"bos_token_id": 1, "eos_token_id": 2, "mask_token_id": 4}
_SLOW = {"rope_type": "default", "rope_theta": 100.0}


def _decoder_tasks(prefix: str) -> dict[str, str]:
    named = tasks(prefix)
    del named["sparse"]
    return named


_GEMMA3 = {
    "dense": "Gemma3TextModel",
    "cross_encoder": "Gemma3TextForSequenceClassification",
}

DECODERS: tuple[Row, ...] = (
    Row(
        name="qwen2",
        config_class="Qwen2Config",
        config={**_DECODER, "rope_parameters": _SLOW},
        classes=_decoder_tasks("Qwen2"),
        tokenizer="eos",
        pooling="lasttoken",
    ),
    Row(
        name="qwen2-bidirectional-windowed-yarn",
        config_class="Qwen2Config",
        config={
            **_DECODER,
            "is_causal": False,
            "use_sliding_window": True,
            "sliding_window": 12,
            "max_window_layers": 1,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 50.0,
                "factor": 4.0,
                "original_max_position_embeddings": 40,
                "beta_fast": 2.0,
            },
        },
        classes=_decoder_tasks("Qwen2"),
        tokenizer="eos",
    ),
    Row(
        name="qwen3",
        config_class="Qwen3Config",
        config={**_DECODER, "head_dim": 12, "rope_parameters": _SLOW},
        classes=_decoder_tasks("Qwen3"),
        tokenizer="eos",
        pooling="lasttoken",
    ),
    Row(
        name="qwen3-biased-windowed-yarn",
        config_class="Qwen3Config",
        config={
            **_DECODER,
            "head_dim": 16,
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 9,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 80.0,
                "factor": 2.0,
                "original_max_position_embeddings": 80,
                "mscale": 0.7,
                "mscale_all_dim": 1.3,
                "truncate": False,
            },
        },
        classes=_decoder_tasks("Qwen3"),
        tokenizer="eos",
    ),
    Row(
        name="llama",
        config_class="LlamaConfig",
        config={
            **_DECODER,
            "head_dim": 16,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 300.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 80,
            },
        },
        classes=_decoder_tasks("Llama"),
        tokenizer="bos",
        pooling="lasttoken",
    ),
    Row(
        name="llama-bidirectional-biased-linear",
        config_class="LlamaConfig",
        config={
            **BERT,
            "is_causal": False,
            "attention_bias": True,
            "mlp_bias": True,
            "hidden_act": "gelu",
            "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0},
        },
        classes=_decoder_tasks("Llama"),
        tokenizer="bos",
    ),
    Row(
        name="eurobert",
        config_class="EuroBertConfig",
        config={**_DECODER, **_ENDS, "head_dim": 12, "rope_parameters": _SLOW},
        classes=tasks("EuroBert"),
        tokenizer="bos",
    ),
    Row(
        name="eurobert-mean-biased",
        config_class="EuroBertConfig",
        config={
            **BERT,
            **_ENDS,
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "classifier_pooling": "mean",
            "rope_parameters": _SLOW,
        },
        classes=tasks("EuroBert"),
        tokenizer="bos",
    ),
    Row(
        name="eurobert-bos",
        config_class="EuroBertConfig",
        config={**BERT, **_ENDS, "classifier_pooling": "bos", "rope_parameters": _SLOW},
        classes={"cross_encoder": "EuroBertForSequenceClassification"},
        tokenizer="bos",
    ),
    Row(
        name="mistral",
        config_class="MistralConfig",
        # The window is far smaller than the longer texts.
        config={**_DECODER, "head_dim": 12, "sliding_window": 10, "rope_parameters": _SLOW},
        classes=_decoder_tasks("Mistral"),
        tokenizer="eos",
        pooling="lasttoken",
    ),
    Row(
        name="mistral-bidirectional",
        config_class="MistralConfig",
        config={
            **_DECODER,
            "is_causal": False,
            "sliding_window": 10,
            "rope_parameters": _SLOW,
        },
        classes=_decoder_tasks("Mistral"),
        tokenizer="eos",
    ),
    Row(
        name="mistral-without-window",
        config_class="MistralConfig",
        config={**_DECODER, "sliding_window": None, "rope_parameters": _SLOW},
        classes=_decoder_tasks("Mistral"),
        tokenizer="eos",
    ),
    Row(
        name="gemma",
        config_class="GemmaConfig",
        # "gelu" is an old word for its tanh form.
        config={**_DECODER, "head_dim": 12, "hidden_act": "gelu", "rope_parameters": _SLOW},
        classes=_decoder_tasks("Gemma"),
        tokenizer="bos",
        pooling="lasttoken",
    ),
    Row(
        name="gemma-bidirectional-biased",
        config_class="GemmaConfig",
        config={**_DECODER, "is_causal": False, "attention_bias": True, "hidden_act": "relu"},
        classes=_decoder_tasks("Gemma"),
        tokenizer="bos",
    ),
    Row(
        name="gemma2",
        config_class="Gemma2Config",
        # Scores are large enough to bend.
        config={
            **_DECODER,
            "head_dim": 12,
            "query_pre_attn_scalar": 20,
            "sliding_window": 10,
            "attn_logit_softcapping": 2.0,
            "rope_parameters": _SLOW,
        },
        classes=_decoder_tasks("Gemma2"),
        tokenizer="bos",
        pooling="lasttoken",
    ),
    Row(
        name="gemma2-bidirectional-biased",
        config_class="Gemma2Config",
        config={
            **_DECODER,
            "head_dim": 16,
            "is_causal": False,
            "sliding_window": 12,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "attention_bias": True,
            "attn_logit_softcapping": 3.0,
            "hidden_activation": "relu",
            "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0},
        },
        classes=_decoder_tasks("Gemma2"),
        tokenizer="bos",
    ),
    Row(
        name="gemma2-uncapped",
        config_class="Gemma2Config",
        config={**_DECODER, "head_dim": 8, "attn_logit_softcapping": None, "sliding_window": 9},
        classes={"dense": "Gemma2Model"},
        tokenizer="bos",
    ),
    Row(
        name="gemma3_text",
        config_class="Gemma3TextConfig",
        config={
            **_DECODER,
            "head_dim": 12,
            "query_pre_attn_scalar": 20,
            "sliding_window": 10,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 300.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 40.0},
            },
        },
        classes=_GEMMA3,
        tokenizer="bos",
        pooling="lasttoken",
    ),
    Row(
        name="gemma3_text-bidirectional-biased",
        config_class="Gemma3TextConfig",
        config={
            **_DECODER,
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "use_bidirectional_attention": True,
            "sliding_window": 12,
            "sliding_window_pattern": 2,
            "attention_bias": True,
            "hidden_activation": "relu",
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 300.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 40.0},
            },
        },
        classes=_GEMMA3,
        tokenizer="bos",
    ),
)
