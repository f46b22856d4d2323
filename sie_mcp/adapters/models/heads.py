"""What stands on an encoder: vocabulary logits, a classifier of texts or pairs, one of tokens.

The families compute the same and name their tensors differently. Sources: transformers' classes
ForMaskedLM, ForSequenceClassification and ForTokenClassification.
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from sie_mcp.adapters.layers.activations import activation
from sie_mcp.adapters.model import Config, Head, Renames
from sie_mcp.adapters.models.names import WORD_TABLE


class MaskedLanguageHead(nn.Module):
    """From hidden states to vocabulary logits; the decoder is the word embedding table.

    `act` is the config's own unless a family fixes it; `width` is that of the embedding table.
    """

    def __init__(self, config: Config, *, act: str | None = None, width: int | None = None) -> None:
        super().__init__()
        hidden_size = config["hidden_size"]
        width = width or hidden_size
        self.transform = nn.Linear(hidden_size, width)
        self.norm = nn.LayerNorm(width, eps=config.get("layer_norm_eps", 1e-12))
        self.decoder = nn.Linear(width, config["vocab_size"])
        self.activation = activation(act or config.get("hidden_act", "gelu"))

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Return logits `(num_rows, vocab_size)`."""
        transformed = self.activation(self.transform(hidden_states))
        logits: torch.Tensor = self.decoder(self.norm(transformed))
        return logits


class PooledClassifier(nn.Module):
    """Dense and activation on the first token, then the classifier: ForSequenceClassification."""

    def __init__(self, config: Config, num_labels: int, *, act: str = "tanh") -> None:
        super().__init__()
        self.dense = nn.Linear(config["hidden_size"], config["hidden_size"])
        self.activation = activation(act)
        self.classifier = nn.Linear(config["hidden_size"], num_labels)

    def forward(self, first: torch.Tensor) -> torch.Tensor:
        """Return logits `(num_seqs, num_labels)` from first-token states `(num_seqs, hidden)`."""
        logits: torch.Tensor = self.classifier(self.activation(self.dense(first)))
        return logits


class TokenClassifier(nn.Linear):
    """One linear layer on every token: BertForTokenClassification."""

    def __init__(self, config: Config, num_labels: int) -> None:
        super().__init__(config["hidden_size"], num_labels)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return logits `(num_tokens, num_labels)`."""
        return functional.linear(input, self.weight, self.bias)


def vocabulary_head(
    *,
    dense: str,
    norm: str,
    decoder: str,
    bias: str | None = None,
    act: Callable[[Config], str] | None = None,
    width: Callable[[Config], int] | None = None,
) -> Head:
    """Return the row of a masked language model's head.

    Args:
        dense: Its first layer in a checkpoint, a regex; so are the others.
        norm: What follows.
        decoder: The last layer, tied to the word table where a checkpoint leaves it out.
        bias: Of the decoder, where it has another name.
        act: The activation, where it is not the config's own.
        width: Of the word table, where it is not the hidden size.
    """
    return Head(
        build=lambda config, _: MaskedLanguageHead(
            config, act=act and act(config), width=width and width(config)
        ),
        renames=(
            *_named(dense, "transform"),
            *_named(norm, "norm"),
            *_named(decoder, "decoder"),
            *(() if bias is None else ((bias, "decoder.bias"),)),
        ),
        tied={"decoder.weight": WORD_TABLE},
    )


def classifier_head(
    *,
    dense: str,
    classifier: str = "classifier",
    act: Callable[[Config], str] = lambda _: "tanh",
) -> Head:
    """Return the row of a classifier of texts or pairs: its two layers in a checkpoint, regexes."""
    return Head(
        build=lambda config, num_labels: PooledClassifier(config, num_labels, act=act(config)),
        renames=(*_named(dense, "dense"), *_named(classifier, "classifier")),
    )


def _named(checkpoint: str, ours: str) -> Renames:
    return ((rf"{checkpoint}\.(.*)", rf"{ours}.\1"),)


TOKEN_HEAD = Head(build=TokenClassifier, renames=((r"classifier\.(.*)", r"\1"),))
