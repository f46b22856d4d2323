"""XLM-RoBERTa with rotary positions over packed sequences: Jina's embeddings v3 and ColBERT v2.

Source: Sturua et al. 2024. Two dialects: the authors' own (model_type "xlm-roberta", positions
"rotary", their xlm-roberta-flash-implementation) and that of transformers ("jina_embeddings_v3").
The low-rank adapters of embeddings v3, one a task, lie beside the weights: lora_stacked.py reads
them, of all layers and both tables.
"""

from torch import nn

from sie_mcp.adapters.layers.mlp import Mlp
from sie_mcp.adapters.model import Architecture, Config, Renames
from sie_mcp.adapters.models.names import WRAPPERS, fused
from sie_mcp.adapters.models.roberta import FLASH_LAYER, FLASH_NORMS, HEADS
from sie_mcp.adapters.models.rotary_bert import RotaryBert
from sie_mcp.adapters.models.settings import require

# The references', where config.json is silent.
_OWN_THETA, _TRANSFORMERS_THETA = 10_000.0, 20_000.0
_DEFAULTS = {"type_vocab_size": 1, "layer_norm_eps": 1e-5}
# What the authors' code can also do, and no checkpoint that we serve does.
_SERVED = {
    "emb_pooler": ("mean", None),
    "rotary_emb_interleaved": (False, None),
    "rotary_emb_scale_base": (None,),
    "truncate_dim": (None,),
    "use_reg_tokens": (False, None),
}


def _build(config: Config) -> nn.Module:
    config = {**_DEFAULTS, **config}
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    require(config, {**_SERVED, "rotary_emb_dim": (head_dim, None)})
    is_own = config["model_type"] == "xlm-roberta"
    theta = config.get("rotary_emb_base", _OWN_THETA if is_own else _TRANSFORMERS_THETA)
    return RotaryBert(config, theta=theta, mlps=_mlps(config), has_bias=True)


def _mlps(config: Config) -> list[nn.Module]:
    sizes, act = (config["hidden_size"], config["intermediate_size"]), config.get("hidden_act")
    count = config["num_hidden_layers"]
    return [Mlp(*sizes, act or "gelu", has_bias=True) for _ in range(count)]


def _adapted(*renames: tuple[str, str]) -> Renames:
    """Let a tensor also be the original of one that adapters change, as torch names it."""
    original = r"(?:parametrizations\.)?(weight|bias)(?:\.original)?"
    return tuple((f"{name}{original}", f"{ours}") for name, ours in renames)


_TODAY = r"layers\.(\d+)\."
_RENAMES = (
    *_adapted(
        (r"embeddings\.word_embeddings\.", r"embeddings.word.\1"),
        (r"embeddings\.token_type_embeddings\.", r"embeddings.token_type.\1"),
        (FLASH_LAYER + r"mixer\.Wqkv\.", r"layers.\1.qkv.\2"),
        (FLASH_LAYER + r"mixer\.out_proj\.", r"layers.\1.out.\2"),
        (FLASH_LAYER + r"mlp\.fc1\.", r"layers.\1.mlp.up.\2"),
        (FLASH_LAYER + r"mlp\.fc2\.", r"layers.\1.mlp.down.\2"),
    ),
    *FLASH_NORMS,
    # Transformers writes the names above, and has these in its modules.
    (r"embeddings\.LayerNorm\.(.*)", r"embeddings.norm.\1"),
    *fused(_TODAY + r"self_attn\.", ("q_proj", "k_proj", "v_proj"), r"layers.\1.qkv"),
    (_TODAY + r"self_attn\.o_proj\.(.*)", r"layers.\1.out.\2"),
    (_TODAY + r"post_attention_layernorm\.(.*)", r"layers.\1.attention_norm.\2"),
    (_TODAY + r"mlp\.fc1\.(.*)", r"layers.\1.mlp.up.\2"),
    (_TODAY + r"mlp\.fc2\.(.*)", r"layers.\1.mlp.down.\2"),
    (_TODAY + r"post_mlp_layernorm\.(.*)", r"layers.\1.mlp_norm.\2"),
)

ARCHITECTURE = Architecture(
    build=_build,
    renames=_RENAMES,
    prefixes=("roberta.", *WRAPPERS),
    ignored=(r"pooler\..*", r"lm_head\..*", r"classifier\..*", r".*\.weight\.0\.lora_[AB]"),
    heads=HEADS,
    position_embedding_types=("rotary",),
)
