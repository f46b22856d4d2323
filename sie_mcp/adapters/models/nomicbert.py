"""NomicBERT over packed sequences: BERT with rotary positions and a gated MLP, without biases.

Source: Nussbaum et al. 2024. Tensor names are those of the authors' checkpoints, which transformers
writes too; config.json has the authors' dialect (GPT-2's names) or that of transformers.
"""

from torch import nn

from sie_mcp.adapters.layers.gated import GatedMlp
from sie_mcp.adapters.model import Architecture, Config
from sie_mcp.adapters.models.heads import TOKEN_HEAD, classifier_head, vocabulary_head
from sie_mcp.adapters.models.names import WRAPPERS
from sie_mcp.adapters.models.rotary_bert import RotaryBert
from sie_mcp.adapters.models.settings import require

_DEFAULT_THETA = 1000.0
# The authors name the gated unit, transformers its activation.
_GATES = {"swiglu": "silu", "geglu": "gelu"}
# What the authors' code can also do, and no checkpoint that we serve does.
_SERVED = {
    "causal": (False,),
    "mlp_fc1_bias": (False,),
    "mlp_fc2_bias": (False,),
    "moe_every_n_layers": (0, None),
    "parallel_block": (False,),
    "prenorm": (False,),
    "qkv_proj_bias": (False,),
    "rotary_emb_fraction": (1.0,),
    "rotary_emb_interleaved": (False,),
    "rotary_emb_scale_base": (None,),
    "rotary_scaling_factor": (1.0, None),
    "scale_attn_by_inverse_layer_idx": (False,),
    "scale_attn_weights": (True,),
    "use_rms_norm": (False, None),
}


def _build(config: Config) -> nn.Module:
    require(config, _SERVED)
    theta = config.get("rotary_emb_base", _DEFAULT_THETA)
    return RotaryBert(config, theta=theta, mlp=_mlp, has_bias=False)


def _mlp(config: Config) -> nn.Module:
    return GatedMlp(config["hidden_size"], config["intermediate_size"], _act(config))


def _act(config: Config) -> str:
    name: str = config.get("hidden_act", "silu")
    return _GATES.get(name, name)


_LAYER = r"encoder\.layers\.(\d+)\."

ARCHITECTURE = Architecture(
    build=_build,
    renames=(
        (r"embeddings\.word_embeddings\.(.*)", r"embeddings.word.\1"),
        (r"embeddings\.token_type_embeddings\.(.*)", r"embeddings.token_type.\1"),
        (r"emb_ln\.(.*)", r"embeddings.norm.\1"),
        (_LAYER + r"attn\.Wqkv\.(.*)", r"layers.\1.qkv.\2"),
        (_LAYER + r"attn\.out_proj\.(.*)", r"layers.\1.out.\2"),
        (_LAYER + r"norm1\.(.*)", r"layers.\1.attention_norm.\2"),
        (_LAYER + r"mlp\.fc12\.(.*)", r"layers.\1.mlp.up.\2#0"),
        (_LAYER + r"mlp\.fc11\.(.*)", r"layers.\1.mlp.up.\2#1"),
        (_LAYER + r"mlp\.fc2\.(.*)", r"layers.\1.mlp.down.\2"),
        (_LAYER + r"norm2\.(.*)", r"layers.\1.mlp_norm.\2"),
    ),
    # "bert.": the authors' own masked language model.
    prefixes=("nomic_bert.", "bert.", *WRAPPERS),
    ignored=(r"pooler\..*", r"cls\..*", r"classifier\..*"),
    heads={
        "sparse": vocabulary_head(
            dense=r"cls\.predictions\.transform\.dense",
            norm=r"cls\.predictions\.transform\.layer_norm",
            decoder=r"cls\.predictions\.decoder",
            bias=r"cls\.predictions\.bias",
            act=_act,
        ),
        "cross_encoder": classifier_head(dense=r"pooler\.dense"),
        "token_classification": TOKEN_HEAD,
    },
    config_names={
        "n_embd": "hidden_size",
        "n_head": "num_attention_heads",
        "n_inner": "intermediate_size",
        "n_layer": "num_hidden_layers",
        "n_positions": "max_position_embeddings",
        "layer_norm_epsilon": "layer_norm_eps",
        "activation_function": "hidden_act",
    },
)
