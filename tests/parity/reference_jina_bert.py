"""Jina's BERT as a plain padded formula, for the table of parity: transformers does not have it.

Written from the paper (Günther et al. 2023) and the names of the released tensors, apart from our
packed module: one tensor a name, one line a step, a loop over heads. Methods and attributes are
those of transformers that the tests use.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

Tensors = dict[str, nn.Parameter]
_CODE = "jinaai/jina-bert-v2-qk-post-norm--configuration_bert.JinaBertConfig"


class JinaBertConfig(SimpleNamespace):
    """Settings as attributes."""

    def __init__(self, **settings: Any) -> None:
        labels = settings.get("id2label", {})
        super().__init__(**{"num_labels": len(labels), **settings})

    @property
    def is_code(self) -> bool:
        """Say which of the authors' two layers this is."""
        return _CODE in getattr(self, "auto_map", {}).values()


class JinaBertModel:
    """The encoder; its subclasses put a head on it."""

    prefix = ""

    def __init__(self, config: JinaBertConfig) -> None:
        self.config = config
        shapes = {self.prefix + name: shape for name, shape in _encoder(config).items()}
        shapes |= self.head()
        self.tensors: Tensors = {name: _random(name, shape) for name, shape in shapes.items()}

    def head(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the head's tensors."""
        return {}

    def eval(self) -> "JinaBertModel":
        """There is nothing that differs in training."""
        return self

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield each tensor and its name."""
        yield from self.tensors.items()

    def save_pretrained(self, folder: Path, **_: Any) -> None:
        """Write what a hub repository has."""
        folder.mkdir(exist_ok=True)
        tensors = {name: one.data for name, one in self.tensors.items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        config = {key: one for key, one in vars(self.config).items() if key[0] != "_"}
        config |= {"model_type": "bert", "architectures": [type(self).__name__]}
        (folder / "config.json").write_text(json.dumps(config))

    def __call__(self, **inputs: torch.Tensor) -> SimpleNamespace:
        """Run the formula."""
        return self.forward(**inputs)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> SimpleNamespace:
        """Return hidden states, and logits where there is a head."""
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        x = self._embedded(input_ids, types)
        for place in range(self.config.num_hidden_layers):
            x = self._layer(f"{self.prefix}encoder.layer.{place}.", x, attention_mask.bool())
        return SimpleNamespace(last_hidden_state=x, logits=self.logits(x))

    def logits(self, x: torch.Tensor) -> torch.Tensor | None:
        """Apply the head."""
        return None

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Apply one linear layer by its name in a checkpoint."""
        return functional.linear(
            x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias")
        )

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Apply one layer norm by its name in a checkpoint."""
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return functional.layer_norm(x, x.shape[-1:], weight, bias, self.config.layer_norm_eps)

    def _embedded(self, ids: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        tables = f"{self.prefix}embeddings."
        words = self.tensors[f"{tables}word_embeddings.weight"][ids]
        kinds = self.tensors[f"{tables}token_type_embeddings.weight"][types]
        return self.norm(f"{tables}LayerNorm", words + kinds)

    def _layer(self, name: str, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        attended = self._attention(f"{name}attention.self.", x, mask)
        attended = self.linear(f"{name}attention.output.dense", attended)
        attended = self.norm(f"{name}attention.output.LayerNorm", attended + x)
        size = self.config.intermediate_size
        act = torch.relu if self.config.feed_forward_type == "reglu" else functional.gelu
        if self.config.is_code:
            attended = self.norm(f"{name}layer_norm_1", attended + x)
            wide = self.linear(f"{name}mlp.up_gated_layer", attended)
            narrow = self.linear(f"{name}mlp.down_layer", wide[..., :size] * act(wide[..., size:]))
            return self.norm(f"{name}layer_norm_2", narrow + attended)
        wide = self.linear(f"{name}mlp.gated_layers", attended)
        narrow = self.linear(f"{name}mlp.wo", act(wide[..., :size]) * wide[..., size:])
        return self.norm(f"{name}mlp.layernorm", narrow + attended)

    def _attention(self, name: str, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.linear(name + part, x) for part in ("query", "key", "value"))
        if self.config.is_code:
            q, k = self.norm(f"{name}layer_norm_q", q), self.norm(f"{name}layer_norm_k", k)
        num_heads = self.config.num_attention_heads
        width = x.shape[-1] // num_heads
        heads = []
        for head, slope in enumerate(SLOPES[num_heads]):
            part = slice(head * width, (head + 1) * width)
            scores = q[..., part] @ k[..., part].transpose(1, 2) / width**0.5
            length = scores.shape[-1]
            for i in range(length):
                scores[:, i] -= slope * (torch.arange(length) - i).abs()
            scores = scores.masked_fill(~mask[:, None, :], float("-inf"))
            heads.append(scores.softmax(-1) @ v[..., part])
        return torch.cat(heads, -1)


# Halving from 1/2 to 1/256 for 8 heads; others take as many of their own between the same ends.
SLOPES = {
    4: [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8],
    6: [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3],
}


class JinaBertForMaskedLM(JinaBertModel):
    """Vocabulary logits; the decoder is the word table."""

    prefix = "bert."

    def head(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the head's tensors."""
        size = self.config.hidden_size
        names = "cls.predictions."
        return {
            **_linear(f"{names}transform.dense", size, size),
            **_norm(f"{names}transform.LayerNorm", size),
            f"{names}bias": (self.config.vocab_size,),
        }

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Apply dense, gelu, norm and decoder."""
        x = functional.gelu(self.linear("cls.predictions.transform.dense", x))
        x = self.norm("cls.predictions.transform.LayerNorm", x)
        table = self.tensors["bert.embeddings.word_embeddings.weight"]
        return x @ table.T + self.tensors["cls.predictions.bias"]


class JinaBertForTokenClassification(JinaBertModel):
    """One linear layer on every token."""

    prefix = "bert."

    def head(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the head's tensors."""
        return _linear("classifier", self.config.num_labels, self.config.hidden_size)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it."""
        return self.linear("classifier", x)


class JinaBertForSequenceClassification(JinaBertForTokenClassification):
    """Dense and tanh on the first token, then the classifier."""

    def head(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the head's tensors."""
        size = self.config.hidden_size
        return {**super().head(), **_linear("bert.pooler.dense", size, size)}

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Apply both."""
        return self.linear("classifier", torch.tanh(self.linear("bert.pooler.dense", x[:, 0])))


def _encoder(config: JinaBertConfig) -> dict[str, tuple[int, ...]]:
    size = config.hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config.vocab_size, size),
        "embeddings.token_type_embeddings.weight": (config.type_vocab_size, size),
        **_norm("embeddings.LayerNorm", size),
    }
    for place in range(config.num_hidden_layers):
        layer = f"encoder.layer.{place}."
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= _linear(f"{layer}attention.{part}", size, size)
        norms, up, down = ["attention.output.LayerNorm", "mlp.layernorm"], "gated_layers", "wo"
        if config.is_code:
            norms = [norms[0], "attention.self.layer_norm_q", "attention.self.layer_norm_k"]
            norms += ["layer_norm_1", "layer_norm_2"]
            up, down = "up_gated_layer", "down_layer"
        for norm in norms:
            shapes |= _norm(layer + norm, size)
        shapes[f"{layer}mlp.{up}.weight"] = (2 * config.intermediate_size, size)
        shapes |= _linear(f"{layer}mlp.{down}", size, config.intermediate_size)
    return shapes


def _linear(name: str, num_out: int, num_in: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (num_out, num_in), f"{name}.bias": (num_out,)}


def _norm(name: str, size: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}


def _random(name: str, shape: tuple[int, ...]) -> nn.Parameter:
    """Return random matrices, unit norms and no bias: the tests add to the last two."""
    if len(shape) == 2:
        return nn.Parameter(torch.randn(shape) * 0.2, requires_grad=False)
    start = torch.ones if name.endswith("weight") else torch.zeros
    return nn.Parameter(start(shape), requires_grad=False)
