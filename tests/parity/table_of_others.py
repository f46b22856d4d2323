"""Families that transformers runs for us: rows of the table of parity, not packed.

Every family that the product pads has its row here, and some that padding would change.
"""

from typing import Any

from tests.parity.row import BERT, VOCAB_SIZE, Row, tasks

# Defaults lie past our small vocabulary.
_ENDS = {"bos_token_id": 1, "eos_token_id": 2}
_BART = {
    "vocab_size": VOCAB_SIZE,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 160,
    "init_std": 0.2,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
_DEBERTA = {
    **BERT,
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "type_vocab_size": 0,
    "position_biased_input": False,
}
_TOKENS = {"dense": "Model", "token_classification": "ForTokenClassification"}


def _row(name: str, prefix: str, config: dict[str, Any], **changes: Any) -> Row:
    values: dict[str, Any] = {"classes": tasks(prefix), **changes}
    return Row(name=name, config_class=f"{prefix}Config", config=config, packed=False, **values)


OTHERS: tuple[Row, ...] = (
    _row("albert", "Albert", {**BERT, "embedding_size": 16, **_ENDS}),
    _row(
        "bart",
        "Bart",
        _BART,
        classes={"dense": "BartModel", "cross_encoder": "BartForSequenceClassification"},
        tokenizer="roberta",
    ),
    _row(
        "data2vec-text",
        "Data2VecText",
        {**BERT, "type_vocab_size": 1},
        tokenizer="roberta",
        extra={"position_offset": 2},
    ),
    _row("deberta", "Deberta", _DEBERTA),
    _row("ernie", "Ernie", BERT),
    _row(
        "gpt2",
        "GPT2",
        {
            "vocab_size": VOCAB_SIZE,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 160,
            "initializer_range": 0.2,
            **_ENDS,
        },
        classes={
            "dense": "GPT2Model",
            "cross_encoder": "GPT2ForSequenceClassification",
            "token_classification": "GPT2ForTokenClassification",
        },
        tokenizer="eos",
        pooling="lasttoken",
    ),
    _row("megatron-bert", "MegatronBert", BERT),
    _row(
        "mobilebert",
        "MobileBert",
        {**BERT, "embedding_size": 16, "intra_bottleneck_size": 16, "num_feedforward_networks": 2},
    ),
    _row(
        "mt5",
        "MT5",
        {
            "vocab_size": VOCAB_SIZE,
            "d_model": 32,
            "d_kv": 12,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 4,
            "eos_token_id": 2,
        },
        classes={"dense": "MT5Model"},
        tokenizer="eos",
    ),
    _row(
        "rembert",
        "RemBert",
        {**BERT, **_ENDS, "input_embedding_size": 16, "output_embedding_size": 24},
    ),
    _row("roformer", "RoFormer", {**BERT, "embedding_size": 16}),
    # From here on the reference sees padding.
    _row("convbert", "ConvBert", {**BERT, "embedding_size": 16}, sees_padding=True),
    _row(
        "fnet",
        "FNet",
        {key: value for key, value in BERT.items() if key != "num_attention_heads"} | _ENDS,
        sees_padding=True,
    ),
    _row(
        "xlnet",
        "XLNet",
        {
            "vocab_size": VOCAB_SIZE,
            "d_model": 32,
            "n_layer": 2,
            "n_head": 4,
            "d_inner": 64,
            "initializer_range": 0.2,
            **_ENDS,
        },
        classes={
            "dense": "XLNetModel",
            "cross_encoder": "XLNetForSequenceClassification",
            "token_classification": "XLNetForTokenClassification",
        },
        sees_padding=True,
    ),
)
