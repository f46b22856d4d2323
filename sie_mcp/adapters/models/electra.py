"""ELECTRA: BERT whose tables may be narrower than its hidden states, with other heads.

Source: Clark et al. 2020; tensor names as in transformers' ElectraModel. Generator and
discriminator are the same encoder; what each was trained with on top stays unused, except the
generator's vocabulary head for sparse vectors.
"""

from torch import nn

from sie_mcp.adapters.model import Architecture, Config
from sie_mcp.adapters.models.bert import RENAMES, Bert
from sie_mcp.adapters.models.heads import TOKEN_HEAD, classifier_head, vocabulary_head
from sie_mcp.adapters.models.names import WRAPPERS

# The reference's, where config.json is silent.
_DEFAULT_EMBEDDING_SIZE = 128


def _width(config: Config) -> int:
    width: int = config.get("embedding_size", _DEFAULT_EMBEDDING_SIZE)
    return width


def _build(config: Config) -> nn.Module:
    return Bert(config, embedding_size=_width(config))


_HEADS = {
    "sparse": vocabulary_head(
        dense=r"generator_predictions\.dense",
        norm=r"generator_predictions\.LayerNorm",
        decoder="generator_lm_head",
        act=lambda _: "gelu",
        width=_width,
    ),
    "cross_encoder": classifier_head(
        dense=r"classifier\.dense", classifier=r"classifier\.out_proj", act=lambda _: "gelu"
    ),
    "token_classification": TOKEN_HEAD,
}

ARCHITECTURE = Architecture(
    records=True,
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
