"""What a two-tower model's text looks like before it runs: where it ends, or what fills it up."""

from dataclasses import replace

import numpy as np

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.recipe import FeatureRule, Recipe
from sie_mcp.adapters.tokenizer import TextTokenizer
from sie_mcp.errors import ModelLoadFailed


class TextFrame:
    """Brings a tokenised text into the form that a tower was trained with.

    Raises:
        ModelLoadFailed: the tokenizer lacks the token for it, or means another than config.json.
    """

    def __init__(self, recipe: Recipe, rule: FeatureRule, tokenizer: TextTokenizer) -> None:
        self._length = rule.pads_to
        find = _padding_id if rule.pads_to else _end_id
        self._id = find(recipe.name, rule, tokenizer)

    def fit(self, sequence: Sequence) -> Sequence:
        """Return the sequence filled up, or cut behind the token at which the text ends."""
        ids = sequence.input_ids
        if self._length:
            missing = max(self._length - len(ids), 0)
            return replace(sequence, input_ids=np.pad(ids, (0, missing), constant_values=self._id))
        # The tower reads the vector at the first such token, even where a text spells one out.
        return replace(sequence, input_ids=ids[: int((ids == self._id).argmax()) + 1])


def _padding_id(name: str, rule: FeatureRule, tokenizer: TextTokenizer) -> int:
    found = tokenizer.vocabulary.get(rule.padding_token)
    if found is None:
        raise ModelLoadFailed(f"{name}: tokenizer.json has no token {rule.padding_token!r}")
    return found


def _end_id(name: str, rule: FeatureRule, tokenizer: TextTokenizer) -> int:
    """Return the id of what the tokenizer puts last.

    Checkpoints from before that id was right are read at the highest id of a text, which is this
    one as long as no token was added past it.
    """
    around = tokenizer.with_special_tokens(np.empty(0, np.int64))
    if len(around) == tokenizer.num_before:
        raise ModelLoadFailed(f"{name}: its tokenizer ends no text with an end-of-text token")
    found = int(around[-1])
    expected = max(tokenizer.vocabulary.values()) if rule.end_id is None else rule.end_id
    if found != expected:
        raise ModelLoadFailed(
            f"{name}: its tokenizer ends texts with token {found}, its vector is read at {expected}"
        )
    return found
