"""RoBERTa, XLM-RoBERTa and CamemBERT: BERT whose positions start past the padding token's id.

Source: Liu et al. 2019; tensor names as in transformers. The three differ in vocabulary alone, so
they share one row. Their classifier reads the first token itself: there is no pooler.
"""

from torch import nn

from sie_mcp.adapters.layers.positions import padding_id
from sie_mcp.adapters.model import Architecture, Config, Head
from sie_mcp.adapters.models.bert import (
    RENAMES,
    TOKEN_HEAD,
    WORD_TABLE,
    WRAPPERS,
    Bert,
    MaskedLanguageHead,
    PooledClassifier,
)


def _build(config: Config) -> nn.Module:
    return Bert(config, padding_id=padding_id(config))


# MPNet's are the same: its authors started from RoBERTa.
HEADS = {
    "sparse": Head(
        # Whatever hidden_act says, this head has always used the exact gelu.
        build=lambda config, _: MaskedLanguageHead(config, act="gelu"),
        renames=(
            (r"lm_head\.dense\.(.*)", r"transform.\1"),
            (r"lm_head\.layer_norm\.(.*)", r"norm.\1"),
            (r"lm_head\.(?:decoder\.)?bias", r"decoder.bias"),
            (r"lm_head\.decoder\.weight", r"decoder.weight"),
        ),
        tied={"decoder.weight": WORD_TABLE},
    ),
    "cross_encoder": Head(
        build=PooledClassifier,
        renames=(
            (r"classifier\.dense\.(.*)", r"dense.\1"),
            (r"classifier\.out_proj\.(.*)", r"classifier.\1"),
        ),
    ),
    "token_classification": TOKEN_HEAD,
}
IGNORED = (r".*position_ids", r"pooler\..*", r"lm_head\..*", r"classifier\..*")

ARCHITECTURE = Architecture(
    build=_build,
    renames=RENAMES,
    prefixes=("roberta.", *WRAPPERS),
    ignored=IGNORED,
    heads=HEADS,
    padding_id=padding_id,
)
