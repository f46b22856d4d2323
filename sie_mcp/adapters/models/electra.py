"""ELECTRA: BERT whose tables may be narrower than its hidden states, with other heads.

Source: Clark et al. 2020; tensor names as in transformers' ElectraModel. Generator and
discriminator are the same encoder; what each was trained with on top stays unused, except the
generator's vocabulary head for sparse vectors.
"""

from torch import nn

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

# The reference's, where config.json is silent.
_DEFAULT_EMBEDDING_SIZE = 128


def _width(config: Config) -> int:
    width: int = config.get("embedding_size", _DEFAULT_EMBEDDING_SIZE)
    return width


def _build(config: Config) -> nn.Module:
    return Bert(config, embedding_size=_width(config))


_HEADS = {
    "sparse": Head(
        build=lambda config, _: MaskedLanguageHead(config, act="gelu", width=_width(config)),
        renames=(
            (r"generator_predictions\.dense\.(.*)", r"transform.\1"),
            (r"generator_predictions\.LayerNorm\.(.*)", r"norm.\1"),
            (r"generator_lm_head\.(.*)", r"decoder.\1"),
        ),
        tied={"decoder.weight": WORD_TABLE},
    ),
    "cross_encoder": Head(
        build=lambda config, num_labels: PooledClassifier(config, num_labels, act="gelu"),
        renames=(
            (r"classifier\.dense\.(.*)", r"dense.\1"),
            (r"classifier\.out_proj\.(.*)", r"classifier.\1"),
        ),
    ),
    "token_classification": TOKEN_HEAD,
}

ARCHITECTURE = Architecture(
    build=_build,
    renames=(*RENAMES, (r"embeddings_project\.(.*)", r"embeddings.project.\1")),
    prefixes=("electra.", *WRAPPERS),
    ignored=(
        r".*position_ids",
        r"(?:discriminator|generator)_.*",
        r"classifier\..*",
    ),
    heads=_HEADS,
)
