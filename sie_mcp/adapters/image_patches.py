"""Images as towers read them: patches of colours, and what layers read of them. Data only."""

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True, slots=True, eq=False)
class ImagePatches:
    """An image as a tower reads it.

    Attributes:
        values: uint8 `(num_patches, patch_numbers)`, row by row.
        shape: Rows and columns of patches.
    """

    values: np.ndarray
    shape: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Images:
    """The images of a batch, which has nothing else: uint8 `(num_patches, …)`, and each's shape."""

    values: torch.Tensor
    shapes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Embedded:
    """What comes into the layers of a batch of images.

    Attributes:
        states: `(num_tokens, hidden_size)`.
        added: The same shape, to be added to them first; None: nothing is.
    """

    states: torch.Tensor
    added: torch.Tensor | None
