"""The table of architectures under parity: a row each, and no test code for a new one.

A row is a tiny random model of the reference library (transformers) that is saved and read back by
our loader. `classes` gives the reference class for each task that the family can carry.
"""

from tests.parity.row import BERT, VOCAB_SIZE, Row, tasks
from tests.parity.table_of_decoders import DECODERS
from tests.parity.table_of_others import OTHERS
from tests.parity.table_of_rotary import ROTARY
from tests.parity.table_of_towers import TOWERS

# Defaults lie past our small vocabulary.
_ENDS = {"bos_token_id": 1, "cls_token_id": 1, "eos_token_id": 2, "sep_token_id": 2}
# An activation other than gelu: heads that always use gelu must not follow it.
_ROBERTA = {**BERT, "type_vocab_size": 1, "hidden_act": "relu"}
_MODERNBERT = {**BERT, "classifier_dropout": 0.0, **_ENDS}
# The authors' dialect, as nomic-embed-text-v2-moe says it.
_NOMIC_MOE = {
    "model_type": "nomic_bert",
    "vocab_size": VOCAB_SIZE,
    "type_vocab_size": 1,
    "n_embd": 32,
    "n_head": 4,
    "n_inner": 48,
    "n_layer": 3,
    "max_position_embeddings": 160,
    "n_positions": 160,
    "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu",
    "rotary_emb_base": 100,
    "rotary_emb_fraction": 1.0,
    "qkv_proj_bias": True,
    "mlp_fc1_bias": True,
    "mlp_fc2_bias": True,
    "moe_every_n_layers": 2,
    "num_experts": 8,
    "moe_top_k": 2,
    "moe_normalize_expert_weights": False,
    "expert_choice_router": False,
    "num_shared_experts": 0,
    "ffn_div": 1,
    "pad_token_id": 1,
}
_DEBERTA = {
    **BERT,
    "relative_attention": True,
    "position_buckets": 16,
    "position_biased_input": False,
    "type_vocab_size": 0,
    "pos_att_type": "p2c|c2p",
}
_T5 = {
    "vocab_size": VOCAB_SIZE,
    "d_model": 32,
    "d_kv": 12,
    "d_ff": 64,
    "num_layers": 3,
    "num_heads": 4,
    # Twice this saturates the classifier: the reference itself is then 1e-4 off float64.
    "initializer_factor": 1.0,
    "max_position_embeddings": 160,
}
_T5_TASKS = {"dense": "T5EncoderModel", "token_classification": "T5ForTokenClassification"}
# Positions start past the padding token, which is 1: the table serves two tokens fewer.
_OFFSET = {"position_offset": 2}

ROWS: tuple[Row, ...] = (
    Row(name="bert", config_class="BertConfig", config=BERT, classes=tasks("Bert")),
    Row(
        name="roberta",
        config_class="RobertaConfig",
        config=_ROBERTA,
        classes=tasks("Roberta"),
        tokenizer="roberta",
        extra=_OFFSET,
    ),
    Row(
        name="xlm-roberta",
        config_class="XLMRobertaConfig",
        config={**BERT, "type_vocab_size": 2},
        classes=tasks("XLMRoberta"),
        tokenizer="roberta",
        extra=_OFFSET,
    ),
    Row(
        name="camembert",
        config_class="CamembertConfig",
        config=_ROBERTA,
        classes=tasks("Camembert"),
        tokenizer="roberta",
        extra=_OFFSET,
    ),
    Row(
        name="distilbert",
        config_class="DistilBertConfig",
        config={
            "vocab_size": VOCAB_SIZE,
            "dim": 32,
            "n_layers": 3,
            "n_heads": 4,
            "hidden_dim": 64,
            "activation": "relu",
            "max_position_embeddings": 160,
            "initializer_range": 0.2,
        },
        classes=tasks("DistilBert"),
    ),
    Row(
        name="electra",
        config_class="ElectraConfig",
        config={**BERT, "embedding_size": 16, "hidden_act": "relu"},
        classes=tasks("Electra"),
    ),
    Row(
        name="electra-same-width",
        config_class="ElectraConfig",
        config={**BERT, "embedding_size": 32},
        classes=tasks("Electra"),
    ),
    Row(
        name="mpnet",
        config_class="MPNetConfig",
        # Texts are longer than 128, where the last bucket of distances begins.
        config={**BERT, "hidden_act": "relu"},
        classes=tasks("MPNet"),
        tokenizer="roberta",
        extra=_OFFSET,
    ),
    Row(
        name="modernbert",
        config_class="ModernBertConfig",
        # Layers 0 and 3 see everything; the window is far smaller than the longer texts.
        config={**_MODERNBERT, "num_hidden_layers": 5, "local_attention": 16},
        classes=tasks("ModernBert"),
    ),
    Row(
        name="modernbert-mean-biased-scaled",
        config_class="ModernBertConfig",
        config={
            **_MODERNBERT,
            "local_attention": 9,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 300.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 40.0},
            },
            "hidden_activation": "relu",
            "classifier_activation": "silu",
            "classifier_pooling": "mean",
            "attention_bias": True,
            "mlp_bias": True,
            "norm_bias": True,
            "classifier_bias": True,
            "decoder_bias": False,
        },
        classes=tasks("ModernBert"),
    ),
    Row(
        name="nomic_bert",
        config_class="NomicBertConfig",
        config=BERT,
        classes=tasks("NomicBert"),
    ),
    Row(
        name="nomic_bert-scaled",
        config_class="NomicBertConfig",
        config={
            **BERT,
            "hidden_act": "relu",
            "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 60.0},
        },
        classes=tasks("NomicBert"),
    ),
    Row(
        name="nomic_bert-experts",
        config_class="",
        config=_NOMIC_MOE,
        classes={"dense": "NomicMoe"},
        tokenizer="roberta",
        reference="tests.parity.reference_nomic_moe:NomicMoe",
    ),
    Row(
        name="nomic_bert-experts-unbiased",
        config_class="",
        config={
            **_NOMIC_MOE,
            "n_layer": 4,
            "moe_every_n_layers": 3,
            "num_experts": 5,
            "moe_top_k": 3,
            "qkv_proj_bias": False,
            "mlp_fc1_bias": False,
            "mlp_fc2_bias": False,
        },
        classes={"dense": "NomicMoe"},
        tokenizer="roberta",
        reference="tests.parity.reference_nomic_moe:NomicMoe",
    ),
    Row(
        name="deberta-v2",
        config_class="DebertaV2Config",
        # As v3: distances up to 8 have a row each, farther ones share rows up to 160.
        config={**_DEBERTA, "share_att_key": True, "norm_rel_ebd": "layer_norm"},
        classes=tasks("DebertaV2"),
    ),
    Row(
        name="deberta-v2-own-projections",
        config_class="DebertaV2Config",
        # Distances go to 24 only, texts beyond; positions and token types are added too.
        config={
            **_DEBERTA,
            "position_buckets": -1,
            "max_relative_positions": 24,
            "position_biased_input": True,
            "type_vocab_size": 2,
            "pos_att_type": ["p2c", "c2p"],
            "pooler_hidden_act": "tanh",
            "hidden_act": "relu",
            "legacy": False,
        },
        classes=tasks("DebertaV2"),
    ),
    Row(
        name="deberta-v2-content-to-position",
        config_class="DebertaV2Config",
        config={**_DEBERTA, "max_relative_positions": 48, "pos_att_type": ["c2p"]},
        classes={"dense": "DebertaV2Model"},
    ),
    Row(
        name="deberta-v2-position-to-content",
        config_class="DebertaV2Config",
        config={**_DEBERTA, "share_att_key": True, "pos_att_type": ["p2c"]},
        classes={"dense": "DebertaV2Model"},
    ),
    Row(
        name="t5",
        config_class="T5Config",
        # Texts are longer than max_distance, where the last bucket of distances begins.
        config={**_T5, "feed_forward_proj": "relu"},
        classes=_T5_TASKS,
        tokenizer="eos",
    ),
    Row(
        name="t5-gated-few-buckets",
        config_class="T5Config",
        config={
            **_T5,
            "feed_forward_proj": "gated-gelu",
            "relative_attention_num_buckets": 12,
            "relative_attention_max_distance": 40,
        },
        classes=_T5_TASKS,
        tokenizer="eos",
    ),
    *DECODERS,
    *ROTARY,
    *TOWERS,
    *OTHERS,
)
