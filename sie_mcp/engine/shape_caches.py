"""What CPU kernels keep for each shape they have seen, bounded. Knows nothing of models.

A packed batch has a shape of its own: kernels kept for the last thousand shapes are hundreds of
megabytes that no later batch uses (evals/LOG.md, entry 12).
"""

import os

# The layers of one batch share a handful of shapes, which are all that is ever asked for twice.
NUM_SHAPES = "32"
# oneDNN's own cache of compiled kernels, and that of torch's layer over it.
_VARIABLES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


def bound_shape_caches() -> None:
    """Bound both, unless whoever started the process has; call before the first forward pass."""
    for variable in _VARIABLES:
        os.environ.setdefault(variable, NUM_SHAPES)
