"""ALiBi: the farther two tokens are apart, the less they see of each other; nothing is learned.

Source: Press et al. 2021; symmetric, as encoders have it (Günther et al. 2023, section 3.1). Added
to scores that are already scaled by the head's width, as in text-embeddings-inference's alibi.rs.
Knows no model.
"""

import math

import torch


def slopes(num_heads: int) -> list[float]:
    """Return how much each head loses a token of distance: from 2^(-8 / n) to 2^-8 for n heads.

    Where n is no power of two, the authors' code takes the one below it, and fills up with every
    other slope of twice that.
    """
    near = 2 ** math.floor(math.log2(num_heads))
    steps = [8 / near * place for place in range(1, near + 1)]
    steps += [4 / near * place for place in range(1, 2 * near, 2)][: num_heads - near]
    return [2.0**-step for step in steps]


def alibi(length: int, *, num_heads: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return what is added to the scores, `(num_heads, length, length)`; never above 0."""
    places = torch.arange(length, dtype=torch.float32, device=device)
    distance = (places[None, :] - places[:, None]).abs()
    steepness = torch.tensor(slopes(num_heads), dtype=torch.float32, device=device)
    return (-steepness[:, None, None] * distance).to(dtype)
