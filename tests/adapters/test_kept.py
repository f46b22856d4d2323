"""Which pieces of a text are kept, from the probabilities of its tokens alone."""

import numpy as np
import pytest

from sie_mcp.adapters.kept import sentence_spans, token_spans
from sie_mcp.catalogue.entries import Profile


def test_pieces_of_one_letter_are_one() -> None:
    """Byte tokens of a letter share its offsets; a space alone is nobody's."""
    text = "a  👩 b"
    offsets = [(0, 1), (1, 3), (3, 4), (3, 4), (3, 4), (5, 6)]
    keep = np.float32([0.9, 0.0, 0.9, 0.0, 0.9, 0.1])
    found = token_spans(text, offsets, keep, Profile(threshold=0.5))
    assert [(one.label, one.text, one.start) for one in found] == [
        ("kept", "a  👩", 0),
        ("pruned", "b", 5),
    ]
    assert found[0].score == pytest.approx((0.9 + 0.9 + 0.0 + 0.9) / 4)
    assert token_spans("", [], np.float32([]), Profile(threshold=0.5)) == []


def test_a_token_with_the_space_before_it_belongs_to_its_own_sentence() -> None:
    text = "One two. Three four."
    offsets = [(0, 3), (3, 7), (7, 8), (8, 14), (14, 19), (19, 20)]
    keep = np.float32([1, 1, 1, 0, 0, 0])
    found = sentence_spans(text, offsets, keep, Profile(threshold=0.5))
    assert [(one.text, one.score) for one in found] == [("One two.", 1.0), ("Three four.", 0.0)]
    assert sentence_spans("", [], np.float32([]), Profile(threshold=0.5)) == []
