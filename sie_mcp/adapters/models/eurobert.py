"""EuroBERT: Llama's layers seeing both ways, with heads of its own.

Source: Boizard et al. 2025; defaults as in transformers' EuroBertConfig.
"""

from dataclasses import replace

from torch import nn

from sie_mcp.adapters.model import Config, Head
from sie_mcp.adapters.models.decoder import NORMS, make_architecture
from sie_mcp.adapters.models.decoder_settings import Settings
from sie_mcp.adapters.models.decoders import read_llama
from sie_mcp.adapters.models.heads import TOKEN_HEAD, classifier_head
from sie_mcp.adapters.models.settings import require
from sie_mcp.adapters.recipe import PoolingMode

# "late" pools what the classifier says of every token, the others what it reads.
_POOLINGS: dict[str, PoolingMode] = {"bos": "cls", "mean": "mean", "late": "mean"}


def _read(config: Config) -> Settings:
    return replace(read_llama({"rms_norm_eps": 1e-5, **config}), is_causal=False)


def _classifier_pooling(config: Config) -> str:
    require(config, {"classifier_pooling": tuple(_POOLINGS)})
    pooling: str = config.get("classifier_pooling", "late")
    return pooling


def _build_decoder(config: Config, _: int) -> nn.Module:
    has_bias = config.get("mlp_bias", False)
    return nn.Linear(config["hidden_size"], config["vocab_size"], bias=has_bias)


ARCHITECTURE = replace(
    make_architecture(_read, NORMS, classifies_tokens=False),
    ignored=(r"lm_head\..*", r"dense\..*", r"classifier\..*"),
    heads={
        "sparse": Head(
            build=_build_decoder,
            renames=((r"lm_head\.(.*)", r"\1"),),
            tied={"weight": "encoder.word.weight"},
        ),
        "cross_encoder": replace(
            classifier_head(dense="dense", act=lambda _: "gelu"),
            pooling=lambda config: _POOLINGS[_classifier_pooling(config)],
            reads_tokens=lambda config: _classifier_pooling(config) == "late",
        ),
        "token_classification": TOKEN_HEAD,
    },
    # The authors' own word.
    config_names={"clf_pooling": "classifier_pooling"},
    is_causal=None,
)
