"""From logits to scores, in float64: in less precision close scores tie. Pure."""

import numpy as np
import torch

from sie_mcp.adapters.recipe import ScoreActivation


def activate(logits: np.ndarray, activation: ScoreActivation) -> np.ndarray:
    """Apply a head's activation to float32 logits, the labels in the last dimension."""
    exact = torch.from_numpy(logits.astype(np.float64))
    if activation == "sigmoid":
        exact = torch.sigmoid(exact)
    elif activation == "softmax":
        exact = torch.softmax(exact, dim=-1)
    values: np.ndarray = exact.numpy()
    return values
