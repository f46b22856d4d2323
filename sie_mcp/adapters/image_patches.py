"""Images as towers read them: patches of colours, of one image or of a batch. Data only."""

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
