"""How sure a category is: what the models, each alone, think of it and of those above it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sie_mcp.tools.decision import (
    COSINE_TEMPERATURE,
    EXAMPLE_WEIGHTS,
    Branches,
    Curve,
    Names,
    fuse,
    mean_share,
    probabilities,
    softmax,
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for each node, for a block of texts.

    Attributes:
        cosines: Of each model, `(num_texts, num_nodes)`.
        words: Shared words, of the same shape.
        likeness: Cosines with labelled examples, `(num_texts, num_examples)`, the models' mean.
        examples: The examples' nodes.
        example_weights: As `Branches.add_examples` takes them.
        pictures: An image model's cosines, `(num_texts, num_nodes)`, zeros for no picture; each
            model has them beside its own.
    """

    cosines: Sequence[np.ndarray]
    words: np.ndarray
    likeness: np.ndarray
    examples: Sequence[int] = ()
    example_weights: tuple[float, float, float] = EXAMPLE_WEIGHTS
    pictures: np.ndarray | None = None

    def shares(self, branches: Branches) -> np.ndarray:
        """Return each node's share by all models together, `(num_texts, num_nodes)`."""
        return self._shares(branches, self.cosines)

    def alone(self, branches: Branches) -> list[np.ndarray]:
        """Return each node's share by every model without the others."""
        return [self._shares(branches, [one]) for one in self.cosines]

    def by_cosines(self) -> np.ndarray:
        """Return labels' probabilities where nothing but cosines speaks for them, same shape."""
        return softmax(np.mean(self.cosines, axis=0), COSINE_TEMPERATURE)

    def _shares(self, branches: Branches, cosines: Sequence[np.ndarray]) -> np.ndarray:
        scores = fuse(cosines, self.words, pictures=self.pictures)
        if self.examples:
            scores = branches.add_examples(
                scores, self.likeness, self.examples, weights=self.example_weights
            )
        return probabilities(branches.decide(scores))


@dataclass(frozen=True, slots=True)
class Belief:
    """One text's shares `(num_nodes,)` by each model alone, read as confidence along `curve`.

    Without a curve they are probabilities already.
    """

    branches: Branches
    alone: Sequence[np.ndarray]
    curve: Curve | None

    def in_node(self, node: int) -> float:
        """Return how likely it is that this very node is right."""
        return self._read([float(one[node]) for one in self.alone])

    def in_branch(self, prefix: Names) -> float:
        """Return how likely it is that a node of that prefix, or below, is right."""
        shares = [self.branches.share(one, prefix) for one in self.alone]
        return self._read(shares)

    def _read(self, shares: Sequence[float]) -> float:
        share = mean_share(shares)
        return share if self.curve is None else self.curve.confidence(share)

    def depth(self, node: int, path: Names, min_confidence: float) -> tuple[Names, float]:
        """Go up from a node until a branch is sure enough; its own path when none is."""
        own = self.in_node(node)
        if own >= min_confidence:
            return path, own
        for depth in range(len(path), 0, -1):
            sure = self.in_branch(path[:depth])
            if sure >= min_confidence:
                return path[:depth], sure
        return path, own
