"""Labels that a model was never trained on, judged as hypotheses about the text.

A model of natural language inference says whether a text entails "This example is {label}.".
Source: Yin, Hay & Roth 2019; the formulas are those of transformers' pipeline
zero-shot-classification. Pure: knows neither tokens nor models.
"""

from collections.abc import Sequence

import numpy as np

from sie_mcp.adapters.probabilities import activate
from sie_mcp.errors import InvalidInput

_GAP = "{}"
TEMPLATE = "This example is {}."


def hypotheses(labels: Sequence[str], template: str) -> list[str]:
    """Put each label, as it is, where the template has its gap.

    Raises:
        InvalidInput: the template has no gap, or several.
    """
    if template.count(_GAP) != 1:
        raise InvalidInput(
            f"hypothesis_template {template!r} must hold {_GAP} once, for the label; "
            "for example 'This example is {}.'"
        )
    return [template.replace(_GAP, label) for label in labels]


def candidate_scores(
    entailment: np.ndarray, contradiction: np.ndarray | None, *, raw: bool
) -> np.ndarray:
    """Return each candidate's score from its logits, `(num_candidates,)` each.

    Without `contradiction` the candidates share one probability: exactly one of them holds. With
    it each has a probability of its own. Raw scores are the entailment logits.
    """
    if raw or contradiction is None:
        return activate(entailment, "identity" if raw else "softmax")
    return activate(np.stack([contradiction, entailment], axis=-1), "softmax")[:, 1]
