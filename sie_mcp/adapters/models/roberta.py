"""RoBERTa, XLM-RoBERTa and CamemBERT: BERT whose positions start past the padding token's id.

Source: Liu et al. 2019; tensor names as in transformers. The three differ in vocabulary alone, so
they share one row. Their classifier reads the first token itself: there is no pooler.
"""

from torch import nn

from sie_mcp.adapters.layers.positions import padding_id
from sie_mcp.adapters.model import Architecture, Config
from sie_mcp.adapters.models.bert import RENAMES, Bert
from sie_mcp.adapters.models.heads import TOKEN_HEAD, classifier_head, vocabulary_head
from sie_mcp.adapters.models.names import WRAPPERS


def _build(config: Config) -> nn.Module:
    return Bert(config, padding_id=padding_id(config))


# MPNet's are the same: its authors started from RoBERTa.
HEADS = {
    "sparse": vocabulary_head(
        dense=r"lm_head\.dense",
        norm=r"lm_head\.layer_norm",
        decoder=r"lm_head\.decoder",
        bias=r"lm_head\.bias",
        # Whatever hidden_act says, this head has always used the exact gelu.
        act=lambda _: "gelu",
    ),
    "cross_encoder": classifier_head(
        dense=r"classifier\.dense", classifier=r"classifier\.out_proj"
    ),
    "token_classification": TOKEN_HEAD,
}
IGNORED = (r".*position_ids", r"pooler\..*", r"lm_head\..*", r"classifier\..*")

# Jina's code around flash-attn computes the same (reranker v2) and names layers otherwise.
FLASH_LAYER = r"encoder\.layers\.(\d+)\."
FLASH_NORMS = (
    (r"emb_ln\.(.*)", r"embeddings.norm.\1"),
    (FLASH_LAYER + r"norm1\.(.*)", r"layers.\1.attention_norm.\2"),
    (FLASH_LAYER + r"norm2\.(.*)", r"layers.\1.mlp_norm.\2"),
)
_FLASH_RENAMES = (
    *FLASH_NORMS,
    (FLASH_LAYER + r"mixer\.Wqkv\.(.*)", r"layers.\1.qkv.\2"),
    (FLASH_LAYER + r"mixer\.out_proj\.(.*)", r"layers.\1.out.\2"),
    (FLASH_LAYER + r"mlp\.fc1\.(.*)", r"layers.\1.up.\2"),
    (FLASH_LAYER + r"mlp\.fc2\.(.*)", r"layers.\1.down.\2"),
)

ARCHITECTURE = Architecture(
    records=True,
    build=_build,
    renames=(*RENAMES, *_FLASH_RENAMES),
    prefixes=("roberta.", *WRAPPERS),
    ignored=IGNORED,
    heads=HEADS,
    padding_id=padding_id,
)
