"""From the cosine of a text and an image to what the model was trained to say of the pair.

Source: Radford et al. 2021 (softmax over texts), Zhai et al. 2023 (a sigmoid for each pair).
"""

from dataclasses import dataclass

import numpy as np

from sie_mcp import wire
from sie_mcp.adapters.model import Architecture
from sie_mcp.adapters.probabilities import activate
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.tensors import TensorSource
from sie_mcp.errors import InvalidInput, ModelLoadFailed

_SCALE, _BIAS = "logit_scale", "logit_bias"


@dataclass(frozen=True, slots=True)
class Matching:
    """A pair's logit is scale * cosine + bias.

    `is_each_alone`: its sigmoid is the probability that the two match. Otherwise only texts that
    compete for one image have probabilities.
    """

    scale: float
    bias: float
    is_each_alone: bool

    def score(self, cosine: float, *, raw: bool) -> float:
        """Return a pair's score: the probability where it has one, else the logit."""
        logit = np.array([cosine * self.scale + self.bias])
        return float(activate(logit, "identity" if raw or not self.is_each_alone else "sigmoid")[0])

    def score_type(self, *, raw: bool) -> wire.ScoreType:
        """Say what `score` returns."""
        return "probability" if self.is_each_alone and not raw else "logit"

    def of_labels(self, cosines: np.ndarray, *, raw: bool) -> np.ndarray:
        """Return labels' scores for one image from their cosines, `(num_labels,)` each."""
        logits = cosines.astype(np.float64) * self.scale + self.bias
        if raw:
            return activate(logits, "identity")
        return activate(logits, "sigmoid" if self.is_each_alone else "softmax")


def read_matching(source: TensorSource, row: Architecture, recipe: Recipe) -> Matching | None:
    """Read the scale and the bias of a checkpoint with two towers; None: images are not served.

    Raises:
        ModelLoadFailed: it has none.
    """
    if recipe.images is None:
        return None
    bare = {name.removeprefix(recipe.tensor_prefix): name for name in source.names()}
    wanted = (_SCALE, _BIAS) if recipe.is_each_alone else (_SCALE,)
    values = {}
    for name in wanted:
        if name not in bare or np.prod(source.shape(bare[name]), dtype=int) != 1:
            raise ModelLoadFailed(f"{source.label} has no {name}, one number, to compare with")
        values[name] = float(source.get(bare[name]))
    return Matching(
        scale=float(np.exp(values[_SCALE])),
        bias=values.get(_BIAS, 0.0),
        is_each_alone=recipe.is_each_alone,
    )


def is_crossed(request: wire.ScoreRequest) -> bool:
    """Whether a text is scored against images, or an image against texts.

    Raises:
        InvalidInput: items of both kinds, whose scores could not be compared.
    """
    kinds = {item.images is not None for item in request.items}
    if len(kinds) > 1:
        raise InvalidInput(
            "items are texts and images, whose scores cannot be compared; send them in two requests"
        )
    return kinds != {request.query.images is not None}
