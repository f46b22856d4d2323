"""MPNet: RoBERTa without token types, whose scores also depend on the distance between tokens.

Source: Song et al. 2020; tensor names as in transformers' MPNetModel.
"""

from torch import nn

from sie_mcp.adapters.model import Architecture, Config
from sie_mcp.adapters.models.bert import EMBEDDING_RENAMES, Bert
from sie_mcp.adapters.models.names import WRAPPERS, fused
from sie_mcp.adapters.models.roberta import HEADS, IGNORED
from sie_mcp.adapters.models.settings import require

# The reference fixes both, whatever config.json says.
_PADDING_ID = 1
_NUM_BUCKETS = 32


def _padding_id(_: Config) -> int:
    return _PADDING_ID


def _build(config: Config) -> nn.Module:
    require(config, {"relative_attention_num_buckets": (_NUM_BUCKETS,)})
    return Bert(config, has_token_types=False, padding_id=_PADDING_ID, has_relative_bias=True)


_LAYER = r"encoder\.layer\.(\d+)\."
_RENAMES = (
    *EMBEDDING_RENAMES,
    (r"encoder\.relative_attention_bias\.(.*)", r"relative_bias.table.\1"),
    *fused(_LAYER + r"attention\.attn\.", ("q", "k", "v"), r"layers.\1.qkv"),
    (_LAYER + r"attention\.attn\.o\.(.*)", r"layers.\1.out.\2"),
    (_LAYER + r"attention\.LayerNorm\.(.*)", r"layers.\1.attention_norm.\2"),
    (_LAYER + r"intermediate\.dense\.(.*)", r"layers.\1.up.\2"),
    (_LAYER + r"output\.dense\.(.*)", r"layers.\1.down.\2"),
    (_LAYER + r"output\.LayerNorm\.(.*)", r"layers.\1.mlp_norm.\2"),
)

ARCHITECTURE = Architecture(
    build=_build,
    renames=_RENAMES,
    prefixes=("mpnet.", *WRAPPERS),
    ignored=IGNORED,
    heads=HEADS,
    padding_id=_padding_id,
)
