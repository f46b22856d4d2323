"""Rows of BERT's relatives whose positions are rotations or distances, in both dialects of each."""

from tests.parity.row import BERT, Dialect, Row, tasks

_HEAD_DIM = 8  # Of BERT's row: 32 / 4.
_THETA = 40.0
# Turns of neighbours differ only when theta is small.
_GTE = {**BERT, "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}
# The authors' scaling, which transformers has no word for.
_FACTOR, _BEND = 4.0, 0.6
_NEW = {
    "model_type": "new",
    "rope_theta": _THETA,
    "position_embedding_type": "rope",
    "layer_norm_type": "layer_norm",
    "logn_attention_scale": False,
    "pack_qkv": True,
}

_JINA_BERT = {**BERT, "type_vocab_size": 2, "position_embedding_type": "alibi"}
# How the authors' checkpoint says which of their two layers it has.
_CODE = {"AutoConfig": "jinaai/jina-bert-v2-qk-post-norm--configuration_bert.JinaBertConfig"}

# Heads use gelu whatever the config says.
_JINA_V3 = {**_GTE, "type_vocab_size": 1, "hidden_act": "relu"}
_ADAPTED = r"((?:Wqkv|mixer\.out_proj|fc1|fc2|word_embeddings|token_type_embeddings)\.)weight$"
# XLM-RoBERTa in the words of Jina's code around flash-attn.
_L = r"encoder\.layer\.(\d+)\."
_FLASH = {
    r"embeddings\.LayerNorm": "emb_ln",
    _L + r"attention\.self\.query\.(\w+)": r"encoder.layers.\1.mixer.Wqkv.\2#0",
    _L + r"attention\.self\.key\.(\w+)": r"encoder.layers.\1.mixer.Wqkv.\2#1",
    _L + r"attention\.self\.value\.(\w+)": r"encoder.layers.\1.mixer.Wqkv.\2#2",
    _L + r"attention\.output\.dense": r"encoder.layers.\1.mixer.out_proj",
    _L + r"attention\.output\.LayerNorm": r"encoder.layers.\1.norm1",
    _L + r"intermediate\.dense": r"encoder.layers.\1.mlp.fc1",
    _L + r"output\.dense": r"encoder.layers.\1.mlp.fc2",
    _L + r"output\.LayerNorm": r"encoder.layers.\1.norm2",
}


def _jina_bert(name: str, **config: object) -> Row:
    return Row(
        name=name,
        config_class="JinaBertConfig",
        config={**_JINA_BERT, "layer_norm_eps": 1e-12, **config},
        classes=tasks("JinaBert"),
        library="tests.parity.reference_jina_bert",
    )


def _ntk(**more: float) -> dict[str, object]:
    return {**_NEW, "rope_scaling": {"type": "ntk", "factor": _FACTOR, **more}}


def _mixed() -> list[float]:
    """Return what each pair is divided by, for the one kind of the reference that takes a list."""
    num_pairs = _HEAD_DIM // 2
    return [_FACTOR ** ((pair / num_pairs) ** _BEND) for pair in range(1, num_pairs + 1)]


ROTARY: tuple[Row, ...] = (
    Row(
        name="gte",
        config_class="GteConfig",
        config={**_GTE, "type_vocab_size": 2},
        classes=tasks("Gte"),
    ),
    Row(
        name="gte-names-of-modules",
        config_class="GteConfig",
        # The head's activation is always gelu.
        config={**_GTE, "hidden_act": "relu"},
        classes=tasks("Gte"),
        tokenizer="roberta",
        keeps_original_names=False,
    ),
    Row(
        name="new-ntk",
        config_class="GteConfig",
        config={
            **BERT,
            "type_vocab_size": 2,
            # Turning slower, pair i by factor^(i / n), is the same as another theta and one factor.
            "rope_parameters": {
                "rope_type": "linear",
                "rope_theta": _THETA * _FACTOR,
                "factor": _FACTOR ** (2 / _HEAD_DIM),
            },
        },
        classes=tasks("Gte"),
        dialect=Dialect({r"^gte\.": "new."}, _ntk(), ("rope_parameters",)),
    ),
    Row(
        name="new-mixed-ntk-unpacked",
        config_class="GteConfig",
        config={
            **BERT,
            "type_vocab_size": 0,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": _THETA,
                "short_factor": _mixed(),
                "long_factor": _mixed(),
                "attention_factor": 1.0,
            },
        },
        classes={"dense": "GteModel"},
        keeps_original_names=False,
        dialect=Dialect(
            {r"^layers\.(\d+)\.self_attn": r"encoder.layer.\1.attention"},
            {**_ntk(mixed_b=_BEND), "pack_qkv": False},
            ("rope_parameters",),
        ),
    ),
    _jina_bert("jina_bert", feed_forward_type="geglu"),
    # Six heads: no power of two.
    _jina_bert(
        "jina_bert-6-heads", feed_forward_type="reglu", hidden_size=48, num_attention_heads=6
    ),
    _jina_bert("jina_bert-code", feed_forward_type="geglu", auto_map=_CODE),
    Row(
        name="jina_embeddings_v3",
        config_class="JinaEmbeddingsV3Config",
        config=_JINA_V3,
        classes=tasks("JinaEmbeddingsV3"),
        tokenizer="roberta",
    ),
    Row(
        name="jina_embeddings_v3-names-of-modules",
        config_class="JinaEmbeddingsV3Config",
        config={
            **_JINA_V3,
            "type_vocab_size": 2,
            "rope_parameters": {"rope_type": "linear", "rope_theta": 60.0, "factor": 3.0},
        },
        classes=tasks("JinaEmbeddingsV3"),
        keeps_original_names=False,
    ),
    Row(
        name="xlm-roberta-rotary",
        config_class="JinaEmbeddingsV3Config",
        config=_JINA_V3,
        classes=tasks("JinaEmbeddingsV3"),
        tokenizer="roberta",
        dialect=Dialect(
            {_ADAPTED: r"\1parametrizations.weight.original"},
            {
                "model_type": "xlm-roberta",
                "position_embedding_type": "rotary",
                "rotary_emb_base": 100.0,
                "emb_pooler": "mean",
                "use_flash_attn": True,
            },
            ("rope_parameters",),
        ),
    ),
    Row(
        name="xlm-roberta-flash",
        config_class="XLMRobertaConfig",
        config={**BERT, "type_vocab_size": 1},
        classes=tasks("XLMRoberta"),
        tokenizer="roberta",
        extra={"position_offset": 2},
        dialect=Dialect(_FLASH, {"position_embedding_type": "absolute", "use_flash_attn": True}),
    ),
)
